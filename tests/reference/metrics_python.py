#!/usr/bin/env python3
"""Scores of other programs: sacreBLEU, rouge-score with NLTK's Porter stemmer, and a RIBES written from its definition.

    pip install sacrebleu rouge-score
    python3 tests/reference/metrics_python.py [tests/goldens]            writes metrics.json, which the tests read
    python3 tests/reference/metrics_python.py --score build/experiments/score [--corpora N] [FILE...]
                                                       compares the program `score` on random and on real lines

Random lines have few words, so that they share n-grams, with everything glued to them that tokenisations care about.
Real lines are those of the files, in corpora of 1 to 8; the hypotheses are made of them by losing, doubling, swapping
and replacing words.
"""
import argparse
import gzip
import json
import math
import pathlib
import random
import re
import subprocess
import tempfile

import sacrebleu.metrics
from nltk.stem.porter import PorterStemmer
from rouge_score import rouge_scorer
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from sacrebleu.tokenizers.tokenizer_intl import TokenizerV14International
from sacrebleu.tokenizers.tokenizer_zh import TokenizerZh

pieces = ["a", "b", "the", "The", "cat", "cats", "running", "1", "23", "1,000.5", "é", "Ü", "日本", "ΔΕ", "don't", "x-y",
          "U.S.", "2-3", "&amp;", "&quot;", "<skipped>", ".", ",", ";", "-", "(", ")", "!", "'", "/", "_", "@", "..",
          "%", "«", "»", "l’été", "…", "—", "“", "”", "¿", "中文", "我", "。", "，", "日本語です", "e\u0301te\u0301",
          "\U0001f44d\U0001f3fd", "\U0001f469\u200d\U0001f680", "½", "2²", "٣", "€", "+", "№", "\U00020000", "한국어"]
raw_texts = ["Elle dit : « L’été 2023, c’est 1 234,5 € – n’est-ce pas ? »", "他说：“今天是2023年5月3日。”价格是1,000.5元！",
             "これはペンです。「はい、そうです」と言った…", "Naïve café – déjà vu; e\u0301te\u0301 ½ or 2² (№ 5)?",
             "Good job \U0001f44d\U0001f3fd! \U0001f469\u200d\U0001f680 flies at 3,5 km/s.", "٣٫٥ كتب، أليس كذلك؟",
             "The end is 2023."]
stemmer = PorterStemmer(mode=PorterStemmer.MARTIN_EXTENSIONS)
words_to_stem = """
caresses ponies ties caress cats feed agreed plastered bled motoring sing conflated troubled sized hopping tanned
falling hissing fizzed failing filing happy sky relational conditional rational valency hesitancy digitizer
conformably radically differently vilely analogously vietnamization predication operator feudalism decisiveness
hopefulness callousness formality sensitivity sensibility triplicate formative formalize electricity electrical
hopeful goodness revival allowance inference airliner gyroscopic adjustable defensible irritant replacement
adjustment dependent adoption homologous communism activate angularity effective bowdlerize probate rate cease
controlling rolling analogy apology yes say syzygy toy employing eyes being seeing need agreement oed ions on s as
possibly crying dying news skies generalizations oscillators probabilities university organization translated
attention attentions localness
""".split()


def ribes(hypothesis: str, reference: str, alpha: float = 0.25, beta: float = 0.10) -> float:
    hyp, ref = hypothesis.split(), reference.split()

    def places(ngram, text):
        return [i for i in range(len(text) - len(ngram) + 1) if text[i:i + len(ngram)] == ngram]

    def place(i):
        if hyp[i] not in ref:
            return None
        if hyp.count(hyp[i]) == ref.count(hyp[i]) == 1:
            return ref.index(hyp[i])
        for width in range(1, max(i + 1, len(hyp) - i + 1)):
            for begin, end, offset in ((i - width, i + 1, width), (i, i + width + 1, 0)):
                if begin < 0 or end > len(hyp):
                    continue
                ngram = hyp[begin:end]
                if len(places(ngram, hyp)) == len(places(ngram, ref)) == 1:
                    return places(ngram, ref)[0] + offset
        return None

    aligned = [p for p in map(place, range(len(hyp))) if p is not None]
    count = len(aligned)
    if count == 1 and len(ref) == 1:
        order = 1.0
    elif count < 2:
        return 0.0
    else:
        ascending = sum(aligned[i] < aligned[j] for i in range(count) for j in range(i + 1, count))
        order = ascending / (count * (count - 1) / 2)
    return order * (count / len(hyp)) ** alpha * min(1, math.exp(1 - len(ref) / len(hyp))) ** beta


def rouge(hypotheses, references, stem):
    kinds = ["rouge1", "rouge2", "rougeL", "rougeLsum"]
    scorer = rouge_scorer.RougeScorer(kinds, use_stemmer=stem)
    if stem:  # NLTK's own variant knows exceptions that ROUGE-1.5.5 does not
        scorer._tokenizer._stemmer = stemmer
    sums = {kind: [0.0, 0.0, 0.0] for kind in kinds}
    for hypothesis, those in zip(hypotheses, references):
        scores = scorer.score_multi([one.replace(".", "\n") for one in those], hypothesis.replace(".", "\n"))
        for kind in kinds:
            for k in range(3):
                sums[kind][k] += scores[kind][k] / len(hypotheses)
    return sums


def scores(hypotheses, references, ribes_lower=False):
    streams = [[those[r] for those in references] for r in range(len(references[0]))]

    def bleu(**options):
        return sacrebleu.metrics.BLEU(force=True, **options).corpus_score(hypotheses, streams).score

    def chrf(**options):
        return sacrebleu.metrics.CHRF(**options).corpus_score(hypotheses, streams).score

    def cased(text):
        return text.lower() if ribes_lower else text

    return {
        "bleu": bleu(tokenize="none", smooth_method="none"),
        "bleu_lower": bleu(tokenize="none", smooth_method="none", lowercase=True),
        "sacrebleu_13a": bleu(), "sacrebleu_lower": bleu(lowercase=True), "sacrebleu_char": bleu(tokenize="char"),
        "sacrebleu_intl": bleu(tokenize="intl"), "sacrebleu_zh": bleu(tokenize="zh"),
        "chrf": chrf(), "chrf_lower": chrf(lowercase=True), "chrf++": chrf(word_order=2),
        "ribes": sum(max(ribes(cased(h), cased(r)) for r in those) for h, those in zip(hypotheses, references))
        / len(hypotheses),
        "rouge": rouge(hypotheses, references, False), "rouge_stemmed": rouge(hypotheses, references, True),
    }


def random_line(draw) -> str:
    text = ""
    for _ in range(draw.randrange(0, 18)):
        text += draw.choice(pieces) + draw.choice(["", " ", " ", " "])
    return text.strip()


def disturbed(draw, line: str) -> str:
    words, result = line.split(), []
    for word in words:
        chance = draw.random()
        if chance < 0.06:
            continue
        result.append(draw.choice(words) if chance < 0.14 else word)
        if chance > 0.95:
            result.append(word)
        if chance > 0.9 and len(result) > 1:
            result[-1], result[-2] = result[-2], result[-1]
    return " ".join(result)


def random_corpus(draw, lines: int, references: int):
    those = [[random_line(draw) for _ in range(references)] for _ in range(lines)]
    return [disturbed(draw, draw.choice(some)) if draw.random() < 0.8 else random_line(draw) for some in those], those


def write_goldens(folder: pathlib.Path) -> None:
    draw, cases = random.Random(11), []
    for lines, references in ((1, 1), (2, 1), (5, 1), (8, 1), (20, 1), (3, 2), (9, 3), (12, 2)):
        hypotheses, those = random_corpus(draw, lines, references)
        cases.append({"name": f"{lines} lines, {references} references", "hypotheses": hypotheses, "references": those,
                      **scores(hypotheses, those)})
    tokenizers = {"13a": Tokenizer13a(), "intl": TokenizerV14International(), "zh": TokenizerZh()}
    texts = [random_line(draw) for _ in range(30)] + raw_texts
    tokenized = {name: [[text, tokenize(text)] for text in texts] for name, tokenize in tokenizers.items()}
    document = {
        "about": "sacreBLEU, rouge-score (precision, recall, F1; '.' ends sentences) and RIBES of random text",
        "cases": cases, "tokenized": tokenized,
        "stems": [[word, stemmer.stem(word)] for word in words_to_stem]}
    text = json.dumps(document, indent=1, ensure_ascii=False)
    text = re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda found: "[" + re.sub(r"\n +", " ", found[1]) + "]", text)
    (folder / "metrics.json").write_text(text + "\n")  # a list a line


def program_scores(program, folder, hypotheses, references, *flags) -> dict:
    files = []
    for name, lines in (("hyp", hypotheses), *((f"ref{r}", [those[r] for those in references])
                                               for r in range(len(references[0])))):
        (folder / name).write_text("".join(line + "\n" for line in lines))
        files += [str(folder / name)] if name == "hyp" else ["--reference", str(folder / name)]
    output = subprocess.run([program, *files, "--resamples", "0", "--json", *flags], check=True, capture_output=True,
                            text=True).stdout
    rows = [json.loads(line) for line in output.splitlines()]
    return {row["metric"]: row["value"] for row in rows}


def differences(program, folder, hypotheses, references):
    theirs = scores(hypotheses, references, ribes_lower=True)

    def ours(metrics, *flags):
        return program_scores(program, folder, hypotheses, references, "--metrics", metrics, *flags)

    plain, lower = ours("bleu,sacrebleu,chrf,chrf++,ribes,rouge"), ours("bleu,mteval,chrf", "--letters", "lower")
    stemmed = ours("rouge", "--stem")
    tokenized = {name: ours("sacrebleu", "--tokenize", name)["sacreBLEU"] for name in ("char", "intl", "zh")}
    pairs = {"bleu": (plain["BLEU"], theirs["bleu"]), "bleu_lower": (lower["BLEU"], theirs["bleu_lower"]),
             "sacrebleu_13a": (plain["sacreBLEU"], theirs["sacrebleu_13a"]),
             "sacrebleu_lower": (lower["mteval BLEU, lower case"], theirs["sacrebleu_lower"]),
             "chrf": (plain["chrF2"], theirs["chrf"]), "chrf++": (plain["chrF2++"], theirs["chrf++"]),
             "chrf_lower": (lower["chrF2"], theirs["chrf_lower"]),
             "ribes": (plain["RIBES"], theirs["ribes"])}
    for name, score in tokenized.items():
        pairs["sacrebleu_" + name] = score, theirs["sacrebleu_" + name]
    for kind in ("rouge1", "rouge2", "rougeL", "rougeLsum"):
        name = kind.replace("rouge", "ROUGE-")
        pairs[kind] = plain[name + " F1"], theirs["rouge"][kind][2]
        pairs[kind + " of stems"] = stemmed[name + " F1"], theirs["rouge_stemmed"][kind][2]
    return {name: abs(a - b) for name, (a, b) in pairs.items()}


def corpora(arguments):
    draw = random.Random(arguments.seed)
    for _ in range(arguments.corpora):
        yield random_corpus(draw, draw.randrange(1, 9), draw.choice([1, 1, 2, 3]))
    for path in arguments.files:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8", newline="\n") as file:
            lines = [" ".join(line.split()) for line in file][:arguments.lines]
        while lines:
            count = draw.randrange(1, 9)
            those, lines = [[line] for line in lines[:count]], lines[count:]
            yield [disturbed(draw, some[0]) for some in those], those


def compare(arguments) -> None:
    largest, compared, lines = {}, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for hypotheses, references in corpora(arguments):
            found = differences(arguments.score, pathlib.Path(folder), hypotheses, references)
            compared, lines = compared + 1, lines + len(hypotheses)
            for name, difference in found.items():
                if difference > largest.get(name, -1):
                    largest[name] = difference
                    if difference > 1e-6:
                        print(f"{name} differs by {difference:g}:", hypotheses, references)
    print(f"{compared} corpora, {lines} lines; largest differences:")
    for name, difference in largest.items():
        print(f"  {name:22} {difference:.2g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--score", help="the program to compare; without it goldens are written")
    parser.add_argument("--corpora", type=int, default=1000, help="random ones")
    parser.add_argument("--lines", type=int, default=1000, help="of each file")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.score:
        compare(arguments)
    else:
        goldens = pathlib.Path(__file__).parent.parent / "goldens"
        write_goldens(arguments.files[0] if arguments.files else goldens)


if __name__ == "__main__":
    main()
