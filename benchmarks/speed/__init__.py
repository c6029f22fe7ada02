"""Speed and memory against peers, side by side: ``python -m attnbench.benchmarks.speed.NAME``.

``terms``             relative positions against a dense implementation of the same formula.
``fairseq_train``     training against ``fairseq-train``, on the same binarised data.
``fairseq_generate``  beam search against fairseq's generator, with the same weights.
``caption_cache``     beam search of captions against the same model without a cache.
``mult``              a training step of MulT against dense attention and the package MMSA.
``spatial``           attention on feature maps against mmcv's GeneralizedAttention.
``detection_eval``    scoring the boxes of 100 images as COCO does.
``features``          image features from the packed store against one npz a file.

Machines are noisy, so the two sides take turns and what counts is the ratio: of the medians, with
the smallest and the largest ratio of one turn beside it.
"""
