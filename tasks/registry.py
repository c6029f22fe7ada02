"""The tasks, each as data: its settings, its data, its module and its attention sites.

Lightning and the data libraries are loaded when a task is built, so that lists stay quick.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..models.attention import Site
from .captioning_config import CAPTIONING_SITES, CaptioningConfig
from .detection_config import DETECTION_SITES, DetectionConfig
from .errors import ConfigError
from .segmentation_config import SEGMENTATION_SITES, SegmentationConfig
from .sentiment_config import SENTIMENT_TASK_SITES, SentimentConfig
from .training_config import TrainingConfig
from .translation_config import TRANSLATION_SITES, TranslationConfig

if TYPE_CHECKING:
    import lightning

    from ..datamodules.captions import CaptionData
    from ..datamodules.detection import DetectionData
    from ..datamodules.segmentation import SegmentationData
    from ..datamodules.sentiment import SentimentData
    from ..datamodules.translation import TranslationData
    from .captioning import CaptioningTask
    from .cost import CostReport
    from .detection import DetectionTask
    from .module import Phase, TaskModule
    from .segmentation import SegmentationTask
    from .sentiment import SentimentTask
    from .translation import TranslationTask


def _nothing(config: Any) -> str | None:
    return None


@dataclass(frozen=True)
class TaskEntry:
    """One task.

    Attributes:
        name: as on the command line.
        title: for lists.
        config: all settings, one level.
        data: makes the data module of a config, which is a ``TaskData``.
        build: makes the Lightning module for a config and its prepared data. Raises ConfigError
            where they don't fit together.
        phases: the phases of a config's training, in order.
        sites: where attention variants are plugged in; each is a setting of that name.
        metric: the headline metric.
        measure: counts parameters and multiply-accumulates.
        training_items: how many items (as ``CostReport.tokens`` counts them) training goes over.
        unhashed: settings that can't change the result (paths, machine), left out of the hash.
        refuses: why a config can't be run, beside what its sites refuse, where the settings tell.
    """

    name: str
    title: str
    config: type[TrainingConfig]
    data: Callable[[Any], lightning.LightningDataModule]
    build: Callable[[Any, Any], TaskModule]
    phases: Callable[[Any], tuple[Phase, ...]]
    sites: dict[str, Site]
    metric: str
    measure: Callable[[Any], CostReport]
    training_items: Callable[[Any], float]
    unhashed: frozenset[str]
    refuses: Callable[[Any], str | None] = _nothing


def _translation_data(config: TranslationConfig) -> TranslationData:
    from ..datamodules.translation import TranslationData

    return TranslationData(config)


def _translation(config: TranslationConfig, data: TranslationData) -> TranslationTask:
    from .translation import TranslationTask

    if config.share_embeddings == "all" and data.source_vocabulary != data.target_vocabulary:
        raise ConfigError(
            "share_embeddings=all needs one dictionary for both languages, but these data have "
            "two: use share_embeddings=decoder, or data with a joined dictionary"
        )
    return TranslationTask(config, len(data.source_vocabulary), len(data.target_vocabulary))


def _one_phase(
    config: TranslationConfig | DetectionConfig | SegmentationConfig,
) -> tuple[Phase, ...]:
    from .module import Phase

    every = config.check_every
    return (
        Phase("", config.max_steps, every, config.validate_every or every, config.average_last),
    )


def _translation_tokens(config: TranslationConfig) -> float:
    return config.max_steps * config.accumulate * config.max_tokens


def _translation_cost(config: TranslationConfig) -> CostReport:
    from .translation import measure

    return measure(config)


def _caption_data(config: CaptioningConfig) -> CaptionData:
    from ..datamodules.captions import CaptionData

    return CaptionData(config)


def _captioning(config: CaptioningConfig, data: CaptionData) -> CaptioningTask:
    from .captioning import CaptioningTask, check_boxes
    from .scst import frequencies_of

    task = CaptioningTask(config, data.feature_dim, len(data.vocabulary))
    check_boxes(task, data)
    if config.scst_steps and config.document_frequencies is not None:
        frequencies_of(config, data)  # now, not after the first phase
    return task


def _captioning_phases(config: CaptioningConfig) -> tuple[Phase, ...]:
    from .captioning import CROSS_ENTROPY, SELF_CRITICAL
    from .module import Phase

    every = config.check_every
    rest = (every, config.validate_every or every, config.average_last)
    phases = [Phase(CROSS_ENTROPY, config.xe_steps, *rest)]
    if config.scst_steps:
        phases.append(Phase(SELF_CRITICAL, config.scst_steps, *rest))
    return tuple(phases)


def _caption_tokens(config: CaptioningConfig) -> float:
    from .captioning import training_tokens

    return training_tokens(config)


def _captioning_cost(config: CaptioningConfig) -> CostReport:
    from .captioning import measure

    return measure(config)


def _sentiment_data(config: SentimentConfig) -> SentimentData:
    from ..datamodules.sentiment import SentimentData

    return SentimentData(config)


def _sentiment(config: SentimentConfig, data: SentimentData) -> SentimentTask:
    from .sentiment import SentimentTask, shape_of

    return SentimentTask(config, shape_of(data))


def _sentiment_phases(config: SentimentConfig) -> tuple[Phase, ...]:
    from .module import Phase

    every = config.check_every
    keep = config.average_last if config.select == "average" else 1
    return (Phase("", config.updates, every, config.validate_every or every, keep),)


def _sentiment_items(config: SentimentConfig) -> float:
    return config.updates * config.accumulate * config.batch_size


def _sentiment_cost(config: SentimentConfig) -> CostReport:
    from .sentiment_cost import measure

    return measure(config)


def _detection_data(config: DetectionConfig) -> DetectionData:
    from ..datamodules.detection import DetectionData

    return DetectionData(config)


def _detection(config: DetectionConfig, data: DetectionData) -> DetectionTask:
    from .detection import DetectionTask

    return DetectionTask(config, len(data.classes))


def _detection_cost(config: DetectionConfig) -> CostReport:
    from .image_cost import detection_cost

    return detection_cost(config)


def _segmentation_data(config: SegmentationConfig) -> SegmentationData:
    from ..datamodules.segmentation import SegmentationData

    return SegmentationData(config)


def _segmentation(config: SegmentationConfig, data: SegmentationData) -> SegmentationTask:
    from .segmentation import SegmentationTask

    return SegmentationTask(config, len(data.classes))


def _segmentation_cost(config: SegmentationConfig) -> CostReport:
    from .image_cost import segmentation_cost

    return segmentation_cost(config)


def _images(config: DetectionConfig | SegmentationConfig) -> float:
    return config.max_steps * config.accumulate * config.batch_size


_IMAGES_UNHASHED = frozenset(
    {
        "root",
        "cache",
        "seed",
        "threads",
        "accelerator",
        "validate_every",
        "workers",
        "memory_mib",
    }
)

TASKS: dict[str, TaskEntry] = {
    "translation": TaskEntry(
        name="translation",
        title="machine translation",
        config=TranslationConfig,
        data=_translation_data,
        build=_translation,
        phases=_one_phase,
        sites=TRANSLATION_SITES,
        metric="bleu",
        measure=_translation_cost,
        training_items=_translation_tokens,
        unhashed=frozenset({"root", "cache", "seed", "threads", "accelerator", "validate_every"}),
    ),
    "captioning": TaskEntry(
        name="captioning",
        title="image captioning",
        config=CaptioningConfig,
        data=_caption_data,
        build=_captioning,
        phases=_captioning_phases,
        sites=CAPTIONING_SITES,
        metric="cider_d",
        measure=_captioning_cost,
        training_items=_caption_tokens,
        unhashed=frozenset({"root", "cache", "seed", "threads", "accelerator", "validate_every"}),
    ),
    "sentiment": TaskEntry(
        name="sentiment",
        title="multimodal sentiment and emotions",
        config=SentimentConfig,
        data=_sentiment_data,
        build=_sentiment,
        phases=_sentiment_phases,
        sites=SENTIMENT_TASK_SITES,
        metric="acc2_nonzero",
        measure=_sentiment_cost,
        training_items=_sentiment_items,
        # Validations choose rate and weights, so how often they are counts.
        unhashed=frozenset({"root", "cache", "seed", "threads", "accelerator"}),
        refuses=SentimentConfig.refusal,
    ),
    "detection": TaskEntry(
        name="detection",
        title="object detection",
        config=DetectionConfig,
        data=_detection_data,
        build=_detection,
        phases=_one_phase,
        sites=DETECTION_SITES,
        metric="box_ap",
        measure=_detection_cost,
        training_items=_images,
        unhashed=_IMAGES_UNHASHED,
        refuses=DetectionConfig.refusal,
    ),
    "segmentation": TaskEntry(
        name="segmentation",
        title="semantic segmentation",
        config=SegmentationConfig,
        data=_segmentation_data,
        build=_segmentation,
        phases=_one_phase,
        sites=SEGMENTATION_SITES,
        metric="miou",
        measure=_segmentation_cost,
        training_items=_images,
        unhashed=_IMAGES_UNHASHED,
        refuses=SegmentationConfig.refusal,
    ),
}
