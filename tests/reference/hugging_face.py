#!/usr/bin/env python3
"""Makes tests/goldens/hugging_face: small models as Hugging Face publishes them, their logits and their tokens
(pip install torch transformers sentencepiece).

Each folder has config.json, model.safetensors and the files of a vocabulary, as the folders of gpt2, bert-base-uncased
and t5-small have, and expected.safetensors: some token ids, lengths, and every seventh column of their logits. The
weights are random and have half precision. texts.json has unpleasant texts with their tokens.
"""
import json
import pathlib

import sentencepiece
import tokenizers
import torch
import transformers
from safetensors.torch import save_file

folder = pathlib.Path(__file__).resolve().parent.parent / "goldens" / "hugging_face"
WORDS = ("the cat sat on a mat while it rained in Zürich and the naïve café owner didn't say that she'll have "
         "12 or 345 eggs for breakfast because we're late again said the older fox to the lazy dog who ran "
         "away from there").split()
TEXTS = ["The cat  sat on\tthe mat.", "She'll say: it's the café's naïve owner!", "don't 'sword' 12,345 eggs",
         "Zürich ＡＢＣ", "中文 cat 日本語", "a 🙂👍🏽 b", " leading and trailing  ", "line\n\n  two\r\nthree",
         "mat—“owner”…", "e\u0301te\u0301",
         "unaffable" * 20, "<|end|> [A] </a>", "a\u00a0b\u200bc\u00add\x01e", "ΑΣ ǅ ½ ①  ９", "we'RE we're   ."]


def corpus():
    """Sentences of the words, each with other neighbours."""
    return [" ".join(WORDS[(i * k + k * k) % len(WORDS)] for i in range(9)) for k in range(1, 40)]


def randomise(model, seed):
    """Gives every parameter numbers of half precision: gains are near 1, the others near 0."""
    torch.manual_seed(seed)
    for name, parameter in model.named_parameters():
        is_gain = parameter.dim() == 1 and name.endswith("weight")
        parameter.data = (torch.randn_like(parameter) * 0.3 + (1 if is_gain else 0.05)).half().float()
    return model.eval()


def save(name, model, expected):
    model.half().save_pretrained(folder / name)
    (folder / name / "generation_config.json").unlink(missing_ok=True)
    save_file({key: tensor.contiguous() for key, tensor in expected.items()}, folder / name / "expected.safetensors")


def ids(shape, vocabulary, seed):
    """Token ids that are not those of special tokens."""
    torch.manual_seed(seed)
    return torch.randint(8, vocabulary, shape)


def gpt2():
    bpe = tokenizers.ByteLevelBPETokenizer()
    bpe.train_from_iterator(corpus(), vocab_size=300, special_tokens=["<|endoftext|>"], show_progress=False)
    # GPT-2 has its special token last
    vocabulary = {token: number - 1 for token, number in bpe.get_vocab().items() if number > 0}
    vocabulary["<|endoftext|>"] = end = len(vocabulary)
    (folder / "gpt2").mkdir(parents=True, exist_ok=True)
    bpe.save_model(str(folder / "gpt2"))
    ordered = dict(sorted(vocabulary.items(), key=lambda entry: entry[1]))
    (folder / "gpt2" / "vocab.json").write_text(json.dumps(ordered) + "\n")
    config = transformers.GPT2Config(vocab_size=end + 1, n_positions=12, n_embd=16, n_layer=2, n_head=4, n_inner=24,
                                     layer_norm_epsilon=2e-5, bos_token_id=end, eos_token_id=end)
    model = randomise(transformers.GPT2LMHeadModel(config), 1)
    tokens = ids((2, 7), end, 2)
    save("gpt2", model, {"ids": tokens, "logits": model(tokens).logits[:, :, ::7]})
    return transformers.GPT2Tokenizer(str(folder / "gpt2" / "vocab.json"), str(folder / "gpt2" / "merges.txt"))


def bert():
    letters = sorted(set("".join(WORDS).lower()) | set("0123456789'.,:!"))
    subwords = ["un", "##aff", "##able", "##s", "##t", "##e", "##o", "owner", "cafe", "naive", "zurich", "。"]
    words = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *subwords, "中", "##12", "—", "abc"]
    words += sorted({"##" + letter for letter in letters if letter.isalpha()} - set(words))
    words += sorted({word.lower() for word in WORDS} - set(words))
    (folder / "bert").mkdir(parents=True, exist_ok=True)
    (folder / "bert" / "vocab.txt").write_text("\n".join(words) + "\n")
    config = transformers.BertConfig(vocab_size=len(words), hidden_size=16, num_hidden_layers=2, num_attention_heads=4,
                                     intermediate_size=24, max_position_embeddings=20, num_labels=3,
                                     id2label={0: "bad", 1: "so so", 2: "good"}, layer_norm_eps=1e-6)
    model = randomise(transformers.BertForSequenceClassification(config), 3)
    tokens, mask = ids((2, 6), len(words), 4), torch.ones(2, 6)
    mask[1, 4:] = 0
    save("bert", model, {"ids": tokens, "lengths": mask.sum(1).long(), "logits": model(tokens, mask).logits})
    return transformers.BertTokenizer(str(folder / "bert" / "vocab.txt"))


def t5(name, layers, d_kv, **options):
    (folder / name).mkdir(parents=True, exist_ok=True)
    if not options:
        # White space becomes spaces and fullwidth letters narrow ones; T5's own rules take 240 KB.
        rules = folder / "rules.tsv"
        rules.write_text("".join([f"{code:X}\t20\n" for code in (9, 10, 13, 0xa0)] +
                                 [f"{0xff21 + k:X}\t{0x41 + k:X}\n" for k in range(26)]))
        lines = folder / "corpus.txt"
        lines.write_text("\n".join(corpus()) + "\n")
        sentencepiece.SentencePieceTrainer.train(
            input=str(lines), model_prefix=str(folder / name / "spiece"), vocab_size=60, pad_id=0, eos_id=1, unk_id=2,
            bos_id=-1, normalization_rule_tsv=str(rules), minloglevel=2)
        for extra in (rules, lines, folder / name / "spiece.vocab"):
            extra.unlink()
    pieces = 60
    config = transformers.T5Config(vocab_size=pieces + 6, d_model=16, d_kv=d_kv, d_ff=24, num_layers=layers,
                                   num_decoder_layers=1, num_heads=4, relative_attention_num_buckets=8,
                                   relative_attention_max_distance=20, layer_norm_epsilon=2e-6, pad_token_id=0,
                                   eos_token_id=1, decoder_start_token_id=0, **options)
    model = transformers.T5ForConditionalGeneration(config)
    if options:  # T5 1.1 has an output layer of its own, which this version of transformers would tie
        model.config.tie_word_embeddings = False
        model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.lm_head.weight))
    randomise(model, 5)
    source, target, mask = ids((2, 9), pieces, 6), ids((2, 11), pieces, 7), torch.ones(2, 9)
    target[:, 0], mask[1, 5:] = 0, 0
    logits = model(source, mask, decoder_input_ids=target).logits[:, :, ::7]
    save(name, model, {"source": source, "lengths": mask.sum(1).long(), "ids": target, "logits": logits})


def main():
    found = {"gpt2": gpt2(), "bert": bert()}
    t5("t5", 2, 4)
    t5("t5_1.1", 1, 6, feed_forward_proj="gated-gelu", tie_word_embeddings=False)
    pieces = sentencepiece.SentencePieceProcessor(str(folder / "t5" / "spiece.model"))
    tokens = {name: [tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"]) for text in TEXTS]
              for name, tokenizer in found.items()}
    tokens["t5"] = [pieces.encode(text, out_type=str) for text in TEXTS]
    (folder / "texts.json").write_text(json.dumps({"texts": TEXTS, **tokens}, ensure_ascii=False, indent=0) + "\n")


main()
