"""What the names in a table mean, for the lines under it."""

_POSITIVE = {
    "nonzero": "items whose label isn't 0, positive is more than 0",
    "has0_ge": "all items, positive is 0 or more",
    "has0_gt": "all items, positive is more than 0",
}
_WEIGHTED = "F1 of each class, weighted by how often it is in the "

_SENTIMENT = {
    "acc7_round": "share of items whose score and label, cut to [-3, 3], round to the same whole "
    "number; halves go to the even one",
    "acc7_sdk": "share of items in the same of the CMU SDK's seven classes: -3 below -2, then "
    "[-2, -1), [-1, 0), 0, (0, 1], (1, 2], and 3 above 2",
    "acc5": "as acc7_round, cut to [-2, 2]",
    **{f"acc2_{name}": f"share of right signs over {what}" for name, what in _POSITIVE.items()},
    **{f"f1_{name}": f"{_WEIGHTED}labels; {what}" for name, what in _POSITIVE.items()},
    **{
        f"f1_{name}_swapped": f"{_WEIGHTED}predictions, as MulT's code has it; {what}"
        for name, what in _POSITIVE.items()
    },
    "mae": "mean absolute error of the sentiment score, which lies in [-3, 3]",
    "corr": "Pearson's correlation of scores and labels; undefined where either is constant",
    "accuracy": "share of right binary labels",
    "f1": f"{_WEIGHTED}labels",
    **{
        f"{name}_acc": f"share of items for which it was rightly said whether they are {name}"
        for name in ("neutral", "happy", "sad", "angry")
    },
    **{
        f"{name}_f1": f"{_WEIGHTED}labels, the classes being {name} and not {name}"
        for name in ("neutral", "happy", "sad", "angry")
    },
    "acc4_argmax": "share of items with exactly one emotion for which that one got the highest "
    "score of the four",
}

_MAJORITY = {
    f"majority_{name}": f"{name} of the constant that is best for it on the evaluated labels"
    for name in _SENTIMENT
    if name != "corr"  # a constant has none
}

_AP = "COCO's average precision of boxes in percent, mean over classes with boxes"
_IMAGES = {
    "box_ap": f"{_AP} and over IoU thresholds .50:.05:.95",
    "box_ap50": f"{_AP}, at IoU .50",
    "box_ap75": f"{_AP}, at IoU .75",
    **{
        f"box_{kind}_{size}": f"box_{rest} of objects {area} pixels of area"
        for kind, rest in (("ap", "ap"), ("ar", "ar100"))
        for size, area in (
            ("small", "up to 32^2"),
            ("medium", "from 32^2 to 96^2"),
            ("large", "from 96^2"),
        )
    },
    **{
        f"box_ar{n}": f"COCO's average recall of boxes in percent with {n} detection{'s'[: n > 1]} "
        "an image and class, mean over IoU thresholds .50:.05:.95"
        for n in (1, 10, 100)
    },
    "miou": "mean intersection over union in percent, from one confusion matrix over the split, by "
    "the rule of the official Cityscapes script: classes that are neither in the truth nor "
    "predicted are left out, pixels without a label too",
    "miou_absent0": "miou by the rule of CCNet's code: a class without any pixel counts as 0",
    "pixel_accuracy": "share of labelled pixels with the right class, in percent",
    "mean_accuracy": "share of a class's pixels with the right class in percent, mean over classes",
}

METRICS = {
    "bleu": "corpus BLEU by sacreBLEU on plain (detokenised) text with its 13a tokeniser",
    "bleu_tok": "corpus BLEU on Moses tokens after the subwords were joined",
    "bleu_tok_split": "bleu_tok with the hyphen inside words split off (a ##AT##-##AT## b) in "
    "hypothesis and reference, as older WMT14 numbers were counted; higher than bleu_tok",
    "chrf": "chrF2 by sacreBLEU: F score of character n-grams up to 6, recall weighed twice",
    "cider_d": "CIDEr-D x 100 on PTB tokens, with document frequencies of the evaluated "
    "references: what papers call CIDEr",
    "cider": "CIDEr x 100 without clipping and length penalty, else as cider_d",
    **{
        f"bleu{n}": f"corpus BLEU of 1- to {n}-grams on PTB tokens, closest reference length"
        for n in (1, 2, 3, 4)
    },
    "rouge_l": "ROUGE-L x 100 (beta 1.2) on PTB tokens, mean over images",
    "meteor": "METEOR 1.5 x 100, by the reference Java program",
    "spice": "SPICE x 100, by the reference Java program",
    **{
        f"{name}_c40": "by COCO's evaluation server, against 40 references an image; it takes "
        "result files of images whose captions are not public"
        for name in ("bleu1", "bleu2", "bleu3", "bleu4", "meteor", "rouge_l", "cider_d")
    },
    "xe_cider_d": "CIDEr-D of the weights that self-critical training began with",
    "xe_bleu4": "BLEU-4 of the weights that self-critical training began with",
    "position_accuracy": "demo images whose caption names both things and says truly how they lie "
    "to each other",
    "xe_position_accuracy": "position_accuracy of the weights that self-critical training began "
    "with",
    **_SENTIMENT,
    **_MAJORITY,
    **_IMAGES,
    "ppl": "perplexity: exp of the mean negative log-likelihood a target token, in nats",
    "loss": "mean training objective on the evaluated split",
    "gflops": "10^9 multiply-accumulates of the explicit path, as the papers count them",
}

COLUMNS = {
    "±": "sample standard deviation over seeds (divided by n - 1); absent where n is 1",
    "n": "number of seeds averaged, and of how many where some are missing",
    "published": "value printed in the paper",
    "diff": "mean minus published",
    "parameters": "trainable and fixed parameters of the whole model",
    "MACs": "multiply-accumulates of the explicit path, as papers count them",
    "macs_executed": "multiply-accumulates that the fused path executes",
    "time": "mean wall time of one run, training and evaluation",
}
