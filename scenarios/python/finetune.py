"""A fine-tuning script as people write it, with transformers' Trainer: a BERT-base with random
weights learns to tell long texts of one word from the rest. It knows nothing of Torchgauge.

    torchgauge bench --image team/train:old --image team/train:new \\
        --mount scenarios/python:/workspace -- python3 /workspace/finetune.py
"""

import argparse

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainingArguments,
)


class Texts(torch.utils.data.Dataset):
    """Random tokens; the label is whether the first of them is even."""

    def __init__(self, size, length, words):
        generator = torch.Generator().manual_seed(1)
        self.tokens = torch.randint(1, words, (size, length), generator=generator)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        tokens = self.tokens[index]
        return {"input_ids": tokens, "labels": int(tokens[0] % 2)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--sequence-length", type=int, default=128)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--tiny", action="store_true", help="small enough for a CPU")
    arguments = parser.parse_args()
    sizes = {}
    if arguments.tiny:
        sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
        sizes |= {"intermediate_size": 128}
    config = BertConfig(num_labels=2, **sizes)
    options = TrainingArguments(
        output_dir="/tmp/finetune",
        per_device_train_batch_size=arguments.batch,
        max_steps=arguments.steps,
        learning_rate=5e-5,
        bf16=torch.cuda.is_available(),
        dataloader_num_workers=2,
        logging_steps=20,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    data = Texts(arguments.batch * 64, arguments.sequence_length, config.vocab_size)
    model = BertForSequenceClassification(config)
    Trainer(model=model, args=options, train_dataset=data).train()


if __name__ == "__main__":
    main()
