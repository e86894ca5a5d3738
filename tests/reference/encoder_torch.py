"""The encoder classifier of Nguyen et al. 2020, section 5.3, in plain PyTorch: what fovea is compared with.

Token embedding * sqrt(d) + sinusoid, dropout; pre-norm layers with ReLU; a final norm; the mean over real positions; a
linear layer. Dropout acts on the embedding, the attention weights, in the feed-forward and before each residual sum.
"""
import math

import torch
from torch import nn
from torch.nn import functional


def sinusoid(length: int, dim: int) -> torch.Tensor:
    """[length, dim]: sines in the first half, cosines in the second, of inverse timescales 10000^(-k / (dim/2 - 1))."""
    scale = torch.exp(torch.arange(dim // 2) * (-math.log(10000.0) / (dim // 2 - 1)))
    angle = torch.arange(length)[:, None] * scale[None, :]
    return torch.cat([angle.sin(), angle.cos()], dim=1)


class HandWrittenLayer(nn.Module):
    """A pre-norm layer with one projection for queries, keys and values, and PyTorch's fused attention function."""

    def __init__(self, dim: int, heads: int, hidden: int, dropout: float):
        super().__init__()
        self.heads, self.rate = heads, dropout
        self.norm_attention, self.norm_hidden = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.projection, self.output = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.hidden, self.result = nn.Linear(dim, hidden), nn.Linear(hidden, dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
        batch, length, dim = x.shape
        heads = self.projection(self.norm_attention(x)).view(batch, length, 3, self.heads, dim // self.heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4)  # each [B, H, T, D]
        mixed = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=allowed[:, None, None, :], dropout_p=self.rate if self.training else 0.0)
        x = x + self.dropout(self.output(mixed.transpose(1, 2).reshape(batch, length, dim)))
        hidden = self.dropout(functional.relu(self.hidden(self.norm_hidden(x))))
        return x + self.dropout(self.result(hidden))


class EncoderClassifier(nn.Module):
    """`layer` is "module" (nn.TransformerEncoderLayer) or "sdpa" (HandWrittenLayer)."""

    def __init__(self, vocabulary: int, classes: int = 2, layers: int = 2, dim: int = 128, heads: int = 4,
                 hidden: int = 512, dropout: float = 0.1, layer: str = "module", max_length: int = 512):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, dim, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=dim ** -0.5)
        with torch.no_grad():
            self.embedding.weight[0].zero_()
        self.register_buffer("positions", sinusoid(max_length, dim))
        self.scale, self.dropout, self.kind = math.sqrt(dim), nn.Dropout(dropout), layer
        if layer == "module":
            one = nn.TransformerEncoderLayer(dim, heads, hidden, dropout, batch_first=True, norm_first=True)
            self.encoder = nn.TransformerEncoder(one, layers, norm=nn.LayerNorm(dim), enable_nested_tensor=False)
            for parameter in self.encoder.parameters():  # the copies start out alike otherwise
                if parameter.dim() > 1:
                    nn.init.xavier_uniform_(parameter)
        else:
            self.encoder = nn.ModuleList(HandWrittenLayer(dim, heads, hidden, dropout) for _ in range(layers))
            self.norm = nn.LayerNorm(dim)
        self.classes = nn.Linear(dim, classes)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """[B, T] token ids, 0 where there is none -> [B, classes] logits."""
        allowed = tokens != 0
        x = self.dropout(self.embedding(tokens) * self.scale + self.positions[: tokens.shape[1]])
        if self.kind == "module":
            x = self.encoder(x, src_key_padding_mask=~allowed)
        else:
            for layer in self.encoder:
                x = layer(x, allowed)
            x = self.norm(x)
        real = allowed[:, :, None].to(x.dtype)
        return self.classes((x * real).sum(1) / real.sum(1))
