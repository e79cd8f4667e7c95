"""The torch side of models.c: the same networks with the same parameter names and order."""
import math

import torch
import torch.nn.functional as F
from torch import nn


def mnist(dropout):
    return nn.Sequential(nn.Conv2d(1, 40, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(40, 40, 5), nn.MaxPool2d(2),
                         nn.ReLU(), nn.Flatten(), nn.Linear(640, 50), nn.ReLU(), nn.Dropout(dropout),
                         nn.Linear(50, 10), nn.LogSoftmax(1))


def mlp():
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def vgg():
    layers, channels = [], 3
    for c in (64, 128, 256):
        for _ in range(2):
            layers += [nn.Conv2d(channels, c, 3, padding=1), nn.BatchNorm2d(c), nn.ReLU(True)]
            channels = c
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4096, 10))


class BasicBlock(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.shortcut = None
        if stride != 1 or channels != out:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)), inplace=True)))
        return F.relu(y + (x if self.shortcut is None else self.shortcut(x)), inplace=True)


def resnet(width):
    layers = [nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True)]
    channels = width
    for stage in range(4):
        out = width << stage
        layers += [BasicBlock(channels, out, 2 if stage else 1), BasicBlock(out, out, 1)]
        channels = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))


class LstmClassifier(nn.Module):
    def __init__(self, features, hidden, classes):
        super().__init__()
        self.rnn = nn.LSTM(features, hidden)
        self.out = nn.Linear(hidden, classes)

    def forward(self, x):
        return self.out(self.rnn(x)[0][-1])


class Layer(nn.Module):
    def __init__(self, dim, heads, context):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.ln1 = nn.LayerNorm(dim)
        self.ln2 = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, 4 * dim)
        self.fc2 = nn.Linear(4 * dim, dim)
        self.register_buffer('mask', torch.tril(torch.ones(context, context)).view(1, 1, context, context) == 0,
                             persistent=False)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (p.view(b, t, self.heads, c // self.heads).transpose(1, 2) for p in self.qkv(self.ln1(x)).split(c, 2))
        a = (q @ k.transpose(-2, -1)) * (1 / math.sqrt(c // self.heads))
        a = a.masked_fill(self.mask[:, :, :t, :t], float('-inf')).softmax(-1)
        x = x + self.proj((a @ v).transpose(1, 2).contiguous().view(b, t, c))
        return x + self.fc2(F.gelu(self.fc1(self.ln2(x))))


class Gpt(nn.Module):
    def __init__(self, vocab, dim, heads, layers, context):
        super().__init__()
        self.position = nn.Parameter(torch.randn(context, dim) * 0.02)
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.Sequential(*[Layer(dim, heads, context) for _ in range(layers)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, tokens):
        return self.head(self.norm(self.layers(self.embed(tokens) + self.position[:tokens.shape[1]])))
