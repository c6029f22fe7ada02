"""What the names in a table mean, for the lines under it."""

METRICS = {
    "bleu": "corpus BLEU by sacreBLEU on plain (detokenised) text with its 13a tokeniser",
    "bleu_tok": "corpus BLEU on Moses tokens after the subwords were joined",
    "bleu_tok_split": "bleu_tok with the hyphen inside words split off (a ##AT##-##AT## b) in "
    "hypothesis and reference, as older WMT14 numbers were counted; higher than bleu_tok",
    "chrf": "chrF2 by sacreBLEU: F score of character n-grams up to 6, recall weighed twice",
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
