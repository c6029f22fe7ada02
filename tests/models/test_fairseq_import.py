"""fairseq's checkpoints: the same logits and hypotheses, or one sentence that says why not."""

import argparse
import json
import os
import subprocess
import sys
import types
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from torch import Tensor

from attnbench.models.decoding import Hypothesis, LengthPenalty, beam_search
from attnbench.models.fairseq_import import (
    FairseqImportError,
    from_fairseq,
    load_fairseq_checkpoint,
)
from attnbench.models.translator import Translator, TranslatorConfig
from tests.shared import golden_dir

PAD = 1


class Case:
    """One reference model: its weights under fairseq's names, inputs and outputs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata()
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        self.config: dict[str, Any] = json.loads(metadata["config"])
        self.extra: dict[str, Any] = json.loads(metadata["extra"])
        self.weights = {n[6:]: t for n, t in tensors.items() if n.startswith("state.")}
        self.inputs = {n[3:]: t for n, t in tensors.items() if n.startswith("in.")}
        self.outputs = {n[4:]: t for n, t in tensors.items() if n.startswith("out.")}

    @property
    def source(self) -> tuple[Tensor, Tensor]:
        """Right padded, and which symbols are real."""
        left_BS = self.inputs["src_tokens"]
        source_BS = torch.full_like(left_BS, PAD)
        for row, symbols in enumerate(left_BS):
            symbols = symbols[symbols != PAD]
            source_BS[row, : len(symbols)] = symbols
        return source_BS, source_BS != PAD

    @property
    def beam_results(self) -> dict[str, Any] | None:
        path = self.path.with_name(self.path.stem + "_beam_search.json")
        return json.loads(path.read_text()) if path.is_file() else None


def cases() -> list[Path]:
    return sorted((golden_dir() / "fairseq").glob("transformer_*.safetensors"))


def built(weights: dict[str, Tensor], heads: int) -> Translator:
    config, state = from_fairseq(weights, heads=heads)
    model = Translator(config).eval()
    model.load_state_dict(state)
    return model


@pytest.mark.parametrize("path", cases(), ids=lambda path: path.stem)
@torch.no_grad()
def test_equal_logits(path: Path) -> None:
    case = Case(path)
    model = built(case.weights, case.config["heads"])
    target_BT = case.inputs["prev_output_tokens"]
    logits_BTV = model(*case.source, target_BT)
    real_BT = target_BT != PAD
    torch.testing.assert_close(
        logits_BTV[real_BT], case.outputs["logits"][real_BT], atol=1e-5, rtol=0
    )
    assert model.config.norm_first == case.config["pre_ln"]
    assert (model.config.share_embeddings == "all") == case.config["share_all"]
    assert sum(p.numel() for p in model.parameters()) == case.extra["parameters"]


@pytest.mark.parametrize("path", cases(), ids=lambda path: path.stem)
def test_equal_hypotheses(path: Path) -> None:
    case = Case(path)
    if (reference := case.beam_results) is None:
        pytest.skip(f"no beam search results beside {path.name}")
    model = built(case.weights, case.config["heads"])
    for name, result in reference["results"].items():
        found = _searched(model, case, reference, result["options"])
        for mine, theirs in zip(found, result["hypotheses"], strict=True):
            assert [list(one.tokens) for one in mine] == [one["tokens"] for one in theirs], name
            for one, other in zip(mine, theirs, strict=True):
                assert one.score == pytest.approx(other["score"], abs=1e-4), name
                assert one.positional_scores == pytest.approx(other["positional_scores"], abs=1e-4)


@torch.no_grad()
def _searched(
    model: Translator, case: Case, symbols: dict[str, int], options: dict[str, Any]
) -> list[list[Hypothesis]]:
    known = {"beam", "lenpen", "normalize", "max_len_a", "max_len_b", "min_len"}
    known |= {"unk_penalty", "temperature"}
    assert options.keys() <= known, f"options this test doesn't know: {options.keys() - known}"
    source_BS, valid_BS = case.source
    items, length = source_BS.shape
    width = options["beam"]
    normalised = options.get("normalize", True)
    return beam_search(
        model,
        model.start(source_BS, valid_BS),
        items=items,
        width=width,
        bos=symbols["eos"],
        eos=symbols["eos"],
        pad=symbols["pad"],
        unk=symbols["unk"],
        # fairseq's limit depends on the padded width of the batch.
        max_length_I=int(options.get("max_len_a", 0) * length + options.get("max_len_b", 200)),
        min_length=options.get("min_len", 1),
        length_penalty=LengthPenalty("power", options.get("lenpen", 1.0) if normalised else 0.0),
        unk_penalty=options.get("unk_penalty", 0.0),
        temperature=options.get("temperature", 1.0),
        n_best=width,
    )


SIZES = {
    "transformer_base": {},
    "transformer_big": {"dim": 1024, "ffn_dim": 4096, "heads": 16},
}


def test_parameter_counts() -> None:
    path = golden_dir() / "fairseq" / "parameter_counts.json"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    compared = 0
    for row in json.loads(path.read_text()):
        if row["model"] not in SIZES:
            # dynamic_conv_base has another kernel size in each layer, and a Translator one spec
            # for all layers of a site.
            continue
        with torch.device("meta"):
            model = Translator(
                TranslatorConfig(
                    source_vocabulary=row["dictionary"],
                    target_vocabulary=row["dictionary"],
                    share_embeddings="all" if row["shared_all_embeddings"] else "none",
                    positions="sinusoidal-fairseq",
                    encoder_self="dot",
                    decoder_self="dot",
                    cross="dot",
                    **SIZES[row["model"]],
                )
            )
        assert sum(p.numel() for p in model.parameters()) == row["parameters"]
        compared += 1
    assert compared


HEADS = 2


def weights(pre_norm: bool = False, share: str = "none", **options: int) -> dict[str, Tensor]:
    """Weights of a small model under today's names, as fairseq lists them."""
    generator = torch.Generator().manual_seed(1)
    dim, ffn, layers, vocabulary = 8, options.get("ffn", 12), options.get("layers", 2), 9

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    found = {"encoder.version": torch.tensor([3.0]), "decoder.version": torch.tensor([3.0])}
    for side in ("encoder", "decoder"):
        found[f"{side}.embed_tokens.weight"] = random(vocabulary, dim)
        attentions = ["self_attn", "encoder_attn"] if side == "decoder" else ["self_attn"]
        for layer in range(layers):
            at = f"{side}.layers.{layer}"
            shapes = {"fc1": (ffn, dim), "fc2": (dim, ffn), "final_layer_norm": (dim,)}
            for attention in attentions:
                shapes[f"{attention}_layer_norm"] = (dim,)
                for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    shapes[f"{attention}.{part}"] = (dim, dim)
            for name, shape in shapes.items():
                found[f"{at}.{name}.weight"] = random(*shape)
                found[f"{at}.{name}.bias"] = random(shape[0])
        if pre_norm:
            found[f"{side}.layer_norm.weight"], found[f"{side}.layer_norm.bias"] = random(2, dim)
    if share == "all":
        found["decoder.embed_tokens.weight"] = found["encoder.embed_tokens.weight"]
    found["decoder.output_projection.weight"] = (
        random(vocabulary, dim) if share == "none" else found["decoder.embed_tokens.weight"]
    )
    return found


def old_names(modern: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same weights as releases before 2019 wrote them."""
    old: dict[str, Tensor] = {}
    norms = {
        "encoder": ["self_attn_layer_norm", "final_layer_norm"],
        "decoder": ["self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"],
    }
    for name, tensor in modern.items():
        *start, last, kind = name.split(".")
        known = norms[name.partition(".")[0]]
        if last in known:
            name = ".".join([*start, "layer_norms", str(known.index(last)), kind])
        elif last == "q_proj":
            parts = [
                modern[".".join([*start, part, kind])] for part in ("q_proj", "k_proj", "v_proj")
            ]
            name, tensor = ".".join([*start, f"in_proj_{kind}"]), torch.cat(parts)
        elif last in ("k_proj", "v_proj"):
            continue
        elif last == "output_projection":
            if torch.equal(tensor, modern["decoder.embed_tokens.weight"]):
                continue
            name = "decoder.embed_out"
        old[name] = tensor
    for side in ("encoder", "decoder"):
        old[f"{side}.embed_positions._float_tensor"] = torch.zeros(1)
    return old


@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("share", ["all", "decoder", "none"])
@torch.no_grad()
def test_names_of_all_ages(pre_norm: bool, share: str) -> None:
    modern = weights(pre_norm, share)
    old = old_names(modern)
    assert "decoder.layers.1.encoder_attn.in_proj_bias" in old
    config, state = from_fairseq(modern, heads=HEADS)
    assert (config.share_embeddings, config.norm_first) == (share, pre_norm)
    other_config, other_state = from_fairseq(old, heads=HEADS)
    assert other_config == config
    assert other_state.keys() == state.keys()
    assert all(torch.equal(other_state[name], tensor) for name, tensor in state.items())
    model = built(old, HEADS)
    assert torch.isfinite(
        model(torch.tensor([[4, 2]]), torch.ones(1, 2).bool(), torch.tensor([[2]]))
    ).all()


def without(name: str) -> dict[str, Tensor]:
    return {key: tensor for key, tensor in weights().items() if key != name}


@pytest.mark.parametrize(
    ("found", "options", "words"),
    [
        (without("decoder.layers.1.fc2.bias"), {}, r"lacks decoder\.layers\.1\.fc2\.bias, which"),
        (without("encoder.embed_tokens.weight"), {}, r"lacks encoder\.embed_tokens\.weight"),
        ({**weights(), "encoder.embed_positions.weight": torch.ones(9, 8)}, {}, "embed_positions"),
        (
            {**weights(), "encoder.layers.0.conv.weight_linear.weight": torch.ones(2)},
            {},
            r"holds encoder\.layers\.0\.conv\.weight_linear\.weight, which no plain",
        ),
        (
            {**weights(), "decoder.layers.0.fc1.weight": torch.ones(9, 8)},
            {},
            r"\(9, 8\) where \(12",
        ),
        ({}, {}, "lacks"),
        (weights(), {"heads": None}, "pass heads"),
        (weights(), {"heads": 3}, "3 heads"),
        (weights(), {"options": {"activation_fn": "gelu"}}, "activation_fn='gelu'"),
        (weights(), {"options": {"layernorm_embedding": True}}, "layernorm_embedding=True"),
        (
            weights(),
            {"options": {"encoder_normalize_before": True}},
            "no norm after its last layer",
        ),
        (
            weights(),
            {"options": {"encoder_attention_heads": 2, "decoder_attention_heads": 4}},
            r"attention_heads \(2 and 4\)",
        ),
    ],
)
def test_what_cannot_be_taken_over_is_said_in_one_sentence(
    found: dict[str, Tensor], options: dict[str, Any], words: str
) -> None:
    options = {"heads": HEADS, **options}
    with pytest.raises(FairseqImportError, match=words) as error:
        from_fairseq(found, options.get("options"), heads=options["heads"])
    assert "\n" not in str(error.value)


class Meter:
    """Like the objects that fairseq stores beside the weights."""

    def __init__(self) -> None:
        self.values = [1.0]

    def __reduce__(self) -> tuple[Any, ...]:
        return (Meter, (), {"values": self.values})


def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zipped: bool, **content: Any) -> Path:
    """A checkpoint that refers to a class nobody can import when it is read."""
    module = types.ModuleType("fairseq_of_2018")
    module.Meter = Meter  # type: ignore[attr-defined]
    path = tmp_path / "checkpoint.pt"
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "fairseq_of_2018", module)
        patch.setattr(Meter, "__module__", "fairseq_of_2018")
        content = {"extra_state": {"train_meter": Meter()}, **content}
        torch.save(content, path, _use_new_zipfile_serialization=zipped)
    return path


OPTIONS = {"encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS, "dropout": 0.3}


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize(
    "options",
    [
        {"args": argparse.Namespace(**OPTIONS)},
        {"args": None, "cfg": {"model": argparse.Namespace(**OPTIONS)}},
        {"args": None, "cfg": {"model": OPTIONS}},
    ],
    ids=["args", "cfg", "cfg of plain values"],
)
def test_checkpoint_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zipped: bool, options: dict[str, Any]
) -> None:
    half = OrderedDict((name, tensor.half()) for name, tensor in weights().items())
    path = saved(tmp_path, monkeypatch, zipped, model=half, **options)
    config, state = load_fairseq_checkpoint(path)
    assert (config.heads, config.dropout, config.dim, config.ffn_dim) == (HEADS, 0.3, 8, 12)
    expected = half["encoder.layers.0.fc1.weight"].float()
    assert torch.equal(state["encoder.0.ffn.expand.weight"], expected)
    Translator(config).load_state_dict(state)


class Harmful:
    def __init__(self, call: Any, *arguments: Any) -> None:
        self.call = (call, arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.call


TOUCH = ["touch", "harm"]


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize(
    ("harmful", "refused"),
    [
        (Harmful(subprocess.call, TOUCH), False),
        (Harmful(os.system, " ".join(TOUCH)), True),
        (Harmful(exec, "open('harm', 'w').close()"), True),
    ],
    ids=["subprocess", "os", "exec"],
)
def test_a_checkpoint_runs_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    zipped: bool,
    harmful: Harmful,
    refused: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    path = saved(tmp_path, monkeypatch, zipped, model=weights(), args=harmful)
    if refused:
        with pytest.raises(FairseqImportError, match="can't be read as data alone") as error:
            load_fairseq_checkpoint(path, heads=HEADS)
        assert "\n" not in str(error.value)
    else:
        config, _ = load_fairseq_checkpoint(path, heads=HEADS)
        assert config.heads == HEADS
    assert not (tmp_path / "harm").exists()


def test_files_that_are_no_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    with pytest.raises(FairseqImportError, match=r"checkpoint\.pt: No such file"):
        load_fairseq_checkpoint(path)
    path.write_text("a text")
    with pytest.raises(FairseqImportError, match="no file that torch.save wrote"):
        load_fairseq_checkpoint(path)
    torch.save({"weights": {}}, path)
    with pytest.raises(FairseqImportError, match="no entry 'model'"):
        load_fairseq_checkpoint(path)
    torch.save({"model": weights()}, path)
    whole = path.read_bytes()
    for part in (0, 10, len(whole) // 2, len(whole) - 10):
        path.write_bytes(whole[:part])
        with pytest.raises(FairseqImportError) as error:
            load_fairseq_checkpoint(path, heads=HEADS)
        assert "\n" not in str(error.value)


@pytest.mark.fairseq
def test_a_checkpoint_that_fairseq_just_wrote(tmp_path: Path) -> None:
    """Train for some steps with the extra `fairseq`, and compare the logits of both."""
    data = golden_dir() / "fairseq" / "preprocessed_joined"
    sizes = [
        f"--{side}-{what}" for side in ("encoder", "decoder") for what in ("layers", "embed-dim")
    ]
    command = ["fairseq-train", str(data), "--arch", "transformer", "--cpu"]
    command += [word for name in sizes for word in (name, "2" if "layers" in name else "16")]
    for side in ("encoder", "decoder"):
        command += [f"--{side}-ffn-embed-dim", "32", f"--{side}-attention-heads", "4"]
    command += ["--share-all-embeddings", "--optimizer", "adam", "--lr", "0.001"]
    command += ["--max-tokens", "500", "--max-update", "3", "--save-dir", str(tmp_path)]
    subprocess.run(
        [Path(sys.executable).with_name(command[0]), *command[1:]], check=True, capture_output=True
    )
    path = tmp_path / "checkpoint_last.pt"
    config, state = load_fairseq_checkpoint(path)
    model = Translator(config).eval()
    model.load_state_dict(state)

    from fairseq import checkpoint_utils  # type: ignore[import-not-found]

    with torch.serialization.safe_globals([argparse.Namespace]):
        (theirs,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(path)])
    source_BS = torch.randint(4, config.source_vocabulary, (3, 6))
    target_BT = torch.randint(4, config.target_vocabulary, (3, 5))
    with torch.no_grad():
        expected, _ = theirs.eval()(source_BS, torch.full((3,), 6), target_BT)
        found = model(source_BS, torch.ones_like(source_BS, dtype=torch.bool), target_BT)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
