"""Writes the folders of five sites: images/SITE/{train,test}/LABEL/NUMBER.png, and what each site knows of its device.

    python make_images.py images                    # of scikit-learn's digits
    python make_images.py images --source FOLDER    # of a folder with a folder of images for each label

Two sites hold half of the labels each, and one, which is cheap and large, has most of its training labels wrong.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from PIL import Image

#: Share of the images, half of the labels (0, 1 or None for all), share of wrong training labels, CPU frequency.
SITES = {
    "arras-post": (0.2, None, 0.0, 700e6),
    "bergen-bank": (0.2, 0, 0.0, 1500e6),
    "cork-clinic": (0.2, 1, 0.0, 700e6),
    "dresden-depot": (0.3, None, 0.8, 700e6),
    "evora-school": (0.1, None, 0.0, 1500e6),
}
TEST_SHARE = 0.25


def digits() -> list[tuple[Image.Image, str]]:
    """Returns scikit-learn's 1,797 digits of 8 x 8 pixels, with their labels."""
    from sklearn.datasets import load_digits

    data = load_digits()
    pixels = (data.images * (255 / 16)).astype(np.uint8)
    return [(Image.fromarray(image), str(label)) for image, label in zip(pixels, data.target, strict=True)]


def images_in(folder: Path) -> list[tuple[Image.Image, str]]:
    """Returns the images of a folder that has a folder for each label."""
    files = sorted(file for file in folder.glob("*/*") if file.is_file())
    if not files:
        raise SystemExit(f"{folder} has no images; expected {folder}/LABEL/IMAGE for two or more labels")
    return [(Image.open(file), file.parent.name) for file in files]


def write_sites(folder: Path, images: list[tuple[Image.Image, str]], seed: int) -> None:
    """Gives every image to one site, and writes it there."""
    rng, labels = np.random.default_rng(seed), sorted({label for _, label in images})
    for label in labels:
        mine = rng.permutation([number for number, (_, other) in enumerate(images) if other == label])
        half = 2 * labels.index(label) // len(labels)
        shares = {site: share for site, (share, only, _, _) in SITES.items() if only in (None, half)}
        ends = np.cumsum(list(shares.values())) / sum(shares.values()) * len(mine)
        for site, numbers in zip(shares, np.split(mine, ends.round().astype(int)[:-1]), strict=True):
            write_label(folder / site, [images[number][0] for number in numbers], label, labels, rng)
    for site, (_, _, _, cpu_freq_hz) in SITES.items():
        (folder / site / "device.json").write_text(json.dumps({"cpu_freq_hz": cpu_freq_hz}) + "\n")
    print(f'{len(images)} images of {len(labels)} labels in {folder}; run with labels="{" ".join(labels)}"')


def write_label(site: Path, images: list[Image.Image], label: str, labels: list[str], rng: np.random.Generator) -> None:
    """Writes a site's images of a label; a share of those to train with lands in a folder drawn at random."""
    num_test = round(TEST_SHARE * len(images))
    wrong = SITES[site.name][2]
    for number, image in enumerate(images):
        split, folder = ("test", label) if number < num_test else ("train", label)
        if split == "train" and rng.random() < wrong:
            folder = str(rng.choice(labels))
        path = site / split / folder / f"{label}-{number:04d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        image.convert("L").save(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--source", type=Path, help="a folder with a folder of images for each label")
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    write_sites(args.folder, digits() if args.source is None else images_in(args.source), args.seed)
