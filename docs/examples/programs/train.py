"""A training loop that reports its steps: the three lines are marked. Needs no torch."""

import torchgauge  # 1


def batches(count, size):
    return [[float(i * size + j) for j in range(size)] for i in range(count)]


def main():
    weight = 0.0
    for batch in torchgauge.steps(batches(count=40, size=8), samples=len):  # 2
        for value in batch * 50:
            weight += 1e-6 * (value - weight)
        torchgauge.metric("weight", weight, unit="plain")  # 3
    print("weight", weight)


if __name__ == "__main__":
    main()
