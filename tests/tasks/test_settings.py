"""Wrong settings give one sentence that names them."""

import math
import typing

import pytest

from attnbench.results import config_hash
from attnbench.tasks.errors import ConfigError
from attnbench.tasks.registry import TASKS
from attnbench.tasks.settings import resolve
from attnbench.tasks.translation_config import TranslationConfig


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"droput": 0.1}, ["droput", "did you mean dropout"]),
        ({"heads": 7}, ["heads=7", "dim=512", "divisor"]),
        ({"dropout": 1.5}, ["dropout=1.5", "less than 1"]),
        ({"dim": "wide"}, ["dim='wide'", "whole number"]),
        ({"dim": 3.5}, ["dim=3.5", "whole number"]),
        ({"dropout": "much"}, ["dropout='much'", "must be a number"]),
        ({"norm_first": "perhaps"}, ["norm_first='perhaps'", "true or false"]),
        ({"cross": "terms(11)"}, ["cross='terms(11)'", "four bits"]),
        ({"encoder_self": "dott"}, ["dott", "did you mean dot"]),
        ({"encoder_self": 110}, ["encoder_self=110", "string"]),
        ({"positions": "absolute"}, ["positions='absolute'", "relative"]),
        (
            {"dim": 40, "heads": 4, "encoder_self": "dynamic(groups=12)"},
            ["encoder_self='dynamic(groups=12)'", "12 groups don't divide the width 40"],
        ),
        ({"length_alpha": float("nan")}, ["length_alpha=nan", "finite"]),
        ({"clip_norm": float("inf")}, ["clip_norm=inf", "finite"]),
        ({"max_length_ratio": float("inf")}, ["max_length_ratio=inf", "finite"]),
        ({"accelerator": "tpu"}, ["accelerator='tpu'", "'cpu'"]),
        ({"accelerator": "abacus"}, ["accelerator='abacus'", "'cpu'"]),
        ({"max_length_ratio": 0, "max_length_extra": 0}, ["max_length_ratio=0", "raise one"]),
        ({"max_steps": 10**10}, ["max_steps=10000000000", "1000000000"]),
        ({"precision": "16-mixed", "accelerator": "cpu"}, ["precision=16-mixed", "bf16-mixed"]),
        ({"source_language": "de", "target_language": "de"}, ["both 'de'", "two different"]),
        ({"subword": 3}, ["subword=3: ", "string"]),
    ],
)
def test_a_wrong_setting_is_one_sentence(settings, words):
    with pytest.raises(ConfigError) as error:
        resolve(TranslationConfig, settings)
    message = str(error.value)
    assert "\n" not in message
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("task", "settings", "words"),
    [
        ("detection", {"attended_stages": 4}, ["attended_stages=4: must be a list, such as"]),
        ("detection", {"attended_stages": []}, ["attended_stages=[]: must not be empty"]),
        ("segmentation", {"void_values": "11"}, ["void_values='11': must be a list, such as"]),
        ("segmentation", {"scale_step": 1e-9}, ["scale_step=1e-09 is below 0.001; set it to 0"]),
    ],
)
def test_a_wrong_setting_of_an_image_task_is_one_sentence(task, settings, words):
    with pytest.raises(ConfigError) as error:
        resolve(TASKS[task].config, settings)
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize("task", TASKS)
def test_no_number_may_be_nan_or_infinite(task):
    config = TASKS[task].config
    numbers = [name for name, field in config.model_fields.items() if _is_number(field.annotation)]
    assert len(numbers) > 10
    for name in numbers:
        for value in (math.nan, math.inf, -math.inf, "nan", "inf", "-inf", "Infinity", "1e999"):
            with pytest.raises(ConfigError, match=f"^{name}="):
                resolve(config, {name: value})


def _is_number(annotation):
    return bool({int, float} & {annotation, *typing.get_args(annotation)})


def test_specs_are_stored_in_their_canonical_form():
    config = resolve(TranslationConfig, {"cross": "terms(1111, scale=false)"})
    assert config.cross == "terms(1111,scale=false)"


def test_defaults_are_transformer_base():
    config = resolve(TranslationConfig, {})
    assert config.peak_learning_rate == pytest.approx(512**-0.5 * 4000**-0.5)
    assert (config.dim, config.ffn_dim, config.heads) == (512, 2048, 8)
    assert (config.encoder_layers, config.decoder_layers) == (6, 6)
    assert (config.beam, config.length_alpha, config.average_last) == (4, 0.6, 5)


def test_a_spec_must_fit_the_width_that_is_set_and_no_other():
    resolve(TranslationConfig, {"dim": 48, "heads": 4, "encoder_self": "dynamic(groups=12)"})
    with pytest.raises(ConfigError, match="heads=12 doesn't divide dim=512"):
        resolve(TranslationConfig, {"heads": 12})


def test_a_path_of_subwords_counts_by_its_file_name():
    def hashed(subword: str) -> str:
        return config_hash(resolve(TranslationConfig, {"subword": subword}).model_dump())

    assert hashed("a/codes") == hashed("b/codes") != hashed("b/other")
    assert resolve(TranslationConfig, {}).subword == "learn"
