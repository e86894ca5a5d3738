"""The package against plain computations in PyTorch, and its promises: no copy, errors, threads, state_dict."""
import copy
import io
import pathlib
import pickle
import re
import resource
import subprocess
import sys
import threading

import numpy
import pytest
import torch

import fovea
from fovea.torch import Attention, MultiheadAttention

D = 6


def usable_places(method):
    places = []
    for place in ("encoder", "decoder", "cross"):
        try:
            fovea.parameters(method, D, heads=2, place=place)
            places.append(place)
        except ValueError:
            pass
    return places


def states(rows, dtype=torch.float64, seed=5, width=D):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(2, rows, width, generator=generator, dtype=dtype) * 2 - 1


def randomised(attention, seed=3):
    """All parameters random, so that none is 0 or 1."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in attention.parameters():
        with torch.no_grad():
            parameter.copy_(torch.rand(parameter.shape, generator=generator) * 2 - 1)
    return attention


def eager(attention, x, y, causal, bias=None):
    """Plain multi-head attention in PyTorch, with this module's parameters."""
    linear = torch.nn.functional.linear
    def heads(name, states):
        parameter = dict(attention.named_parameters())
        out = states @ parameter[name + ".weight"] + parameter[name + ".bias"]
        return out.unflatten(-1, (2, -1)).transpose(1, 2)
    q, k, v = heads("query", x), heads("key", y), heads("value", y)
    z = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    if bias is not None:
        z = z + bias
    if causal:
        z = z.masked_fill(torch.ones(z.shape[-2:], dtype=torch.bool).triu(1), float("-inf"))
    parameter = dict(attention.named_parameters())
    return (z.softmax(-1) @ v).transpose(1, 2).flatten(2) @ parameter["output.weight"] + parameter["output.bias"]


@pytest.mark.parametrize("method", fovea.methods())
def test_gradients_of_every_method(method):
    places = usable_places(method)
    assert places, method
    for place in places:
        attention = randomised(Attention(method, model_dim=D, heads=2, place=place).double()).eval()
        x = states(4).requires_grad_()
        y = states(5, seed=8).requires_grad_() if place == "cross" else None
        extra = {"mask": (states(4)[:1, :, :1] * 0 + 0.5).expand(1, 4, 4 if y is None else 5).unsqueeze(1)}
        names = [name for name, value in attention.named_parameters() if value.numel() < 200]
        values = [dict(attention.named_parameters())[name] for name in names]

        def f(*tensors):
            query, key = tensors[0], tensors[1] if y is not None else None
            first = 2 if y is not None else 1
            replaced = dict(zip(names, tensors[first:]))
            return torch.func.functional_call(
                attention, replaced, (query, key), {"lengths": torch.tensor([4, 3]), **reads(method, extra)})

        tensors = [x, *([y] if y is not None else []), *values]
        assert torch.autograd.gradcheck(f, tensors, fast_mode=True, check_undefined_grad=False)


def reads(method, inputs):
    """The optional inputs that the method reads."""
    return inputs if method in ("man",) else {}


@pytest.mark.parametrize("place, head_dim", [("encoder", None), ("decoder", None), ("encoder", D)])
def test_agrees_with_eager_attention(place, head_dim):
    attention = randomised(Attention("global", model_dim=D, heads=2, place=place, head_dim=head_dim).double())
    x = states(7).requires_grad_()
    ours, theirs = attention(x), eager(attention, x, x, place == "decoder")
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    cotangent = states(7, seed=9)
    leaves = [x, *attention.parameters()]
    for a, b in zip(torch.autograd.grad(ours, leaves, cotangent), torch.autograd.grad(theirs, leaves, cotangent)):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-11)


def test_a_learned_bias_agrees_with_eager_attention():
    attention = randomised(Attention("alibi", model_dim=D, heads=2).double())
    x = states(9)
    position = torch.arange(9, dtype=torch.float64)
    slopes = torch.tensor([2.0 ** -4, 2.0 ** -8], dtype=torch.float64).view(2, 1, 1)
    bias = -slopes * (position[None, :] - position[:, None]).abs()
    torch.testing.assert_close(attention(x), eager(attention, x, x, False, bias), rtol=0, atol=1e-12)


def test_attend_on_numpy_and_torch():
    x = states(5, torch.float32)
    parameters = fovea.parameters("gaussian(window=query)", D, heads=2)
    lengths = numpy.array([5, 3], dtype=numpy.int64)
    of_numpy = fovea.attend("gaussian(window=query)", x.numpy(), heads=2, parameters=parameters, lengths=lengths)
    assert isinstance(of_numpy, numpy.ndarray) and of_numpy.dtype == numpy.float32
    of_torch = fovea.attend("gaussian(window=query)", x, heads=2, parameters=parameters, lengths=lengths)
    assert isinstance(of_torch, torch.Tensor)
    numpy.testing.assert_array_equal(of_torch.numpy(), of_numpy)
    whole = fovea.attend("gaussian(window=query)", x, heads=2, parameters=parameters)
    assert not torch.equal(whole[1, :3], of_torch[1, :3]) and torch.equal(whole[0], of_torch[0])
    rounded = fovea.attend("gaussian(window=query)", x.bfloat16(), heads=2, parameters=parameters, lengths=lengths)
    assert rounded.dtype == torch.bfloat16
    torch.testing.assert_close(rounded.float(), of_torch, rtol=0, atol=0.05)


def test_arrays_with_strides_are_read_as_they_are():
    x = states(5).transpose(0, 1)  # [5, 2, D]: sentences of two tokens
    torch.testing.assert_close(fovea.attend("global", x, heads=2), fovea.attend("global", x.contiguous(), heads=2),
                               rtol=0, atol=0)


def test_arrays_that_are_read_only_or_need_gradients_are_read():
    x = states(5)
    expected = fovea.attend("global", x, heads=2)
    frozen = x.numpy().copy()
    frozen.flags.writeable = False
    numpy.testing.assert_array_equal(fovea.attend("global", frozen, heads=2), expected.numpy())
    assert torch.equal(fovea.attend("global", x.clone().requires_grad_(), heads=2), expected)


def test_a_negative_that_torch_has_not_computed_yet_is_read_as_it_is():
    numbers = torch.complex(states(3), states(3, seed=6))
    x = numbers.conj().imag
    assert x.is_neg()
    assert torch.equal(fovea.attend("global", x, heads=2), fovea.attend("global", -numbers.imag, heads=2))
    attention = Attention("global", model_dim=D, heads=2).double()
    leaf = states(3).requires_grad_()
    slope, = torch.autograd.grad(attention(leaf), leaf, x)
    assert torch.equal(slope, torch.autograd.grad(attention(leaf), leaf, -numbers.imag)[0])


def test_no_array_is_copied():
    """The memory of a large input is not there twice, and the values of mean attention are those of the array."""
    x = torch.rand(1, 4, 1 << 20)
    fovea.attend("classic(mean)", x[:, :, :8])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    big = torch.rand(1, 64, 1 << 20)  # 256 MiB
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    out = fovea.attend("classic(mean)", big[:, :1], big)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert held - before > 200 << 10 and after - held < 100 << 10
    torch.testing.assert_close(out[0, 0], big[0].mean(0), rtol=1e-4, atol=1e-5)


def test_errors_are_value_errors_with_the_messages_of_fovea():
    x = states(3)
    with pytest.raises(ValueError, match="no method 'gausian'.*did you mean 'gaussian'"):
        fovea.attend("gausian", x)
    with pytest.raises(ValueError, match="there is no method 'gausian'"):
        fovea.describe("gausian")
    with pytest.raises(ValueError, match="key length at"):
        fovea.attend("global", x, lengths=torch.tensor([3, 9]))
    with pytest.raises(ValueError, match="query has a negative stride"):
        fovea.attend("global", x.numpy()[:, ::-1])
    with pytest.raises(ValueError, match="'query.weight' is f64 .*expected"):
        fovea.attend("global", x, parameters={"query.weight": x[0]})
    with pytest.raises(ValueError, match="no parameter 'weight'; expected one of: .*query.weight"):
        fovea.attend("global", x, parameters={"weight": x[0]})
    with pytest.raises(ValueError, match="query: found None; expected an array"):
        fovea.attend("global", None)
    with pytest.raises(ValueError, match="query: found 0 dimensions; expected 3"):
        fovea.attend("global", numpy.array(1.0))
    with pytest.raises(ValueError, match="place 'middle'"):
        Attention("global", model_dim=D, heads=2, place="middle")


@pytest.mark.parametrize("named, found, expected, arguments", [
    ("query", "float16", "float32, float64 or bfloat16", {"query": states(3).half()}),
    ("query", "int64", "float32, float64 or bfloat16", {"query": states(3).long()}),
    ("query", ">f4", "machine's byte order", {"query": states(3).numpy().astype(">f4")}),
    ("query", "f16", "64 bits", {"query": states(3).numpy().astype("g")}),
    ("query", "masked array", "without a mask", {"query": numpy.ma.masked_less(states(3).numpy(), 0)}),
    ("query", "torch.sparse_coo", "dense", {"query": states(3).to_sparse()}),
    ("query", "list", "array", {"query": [[1.0]]}),
    ("query", "2 dimensions", "3", {"query": states(3)[0]}),
    ("key", "float64", "float32", {"query": states(3).float(), "key": states(3)}),
    ("query.weight", "float64", "float32", {"query": states(3).float(), "parameters": {"query.weight": states(6)[0]}}),
    ("query.weight", "float16", "float32", {"parameters": {"query.weight": states(6)[0].half()}}),
    ("query.weight", "list", "array", {"parameters": {"query.weight": [1.0]}}),
    ("mask", "complex128", "float32", {"mask": states(3).to(torch.complex128)}),
    ("lengths", "float64", "int32 or int64", {"lengths": states(3)[:, 0, 0]}),
    ("lengths", "int16", "int32 or int64", {"lengths": torch.tensor([3, 3], dtype=torch.int16)}),
    ("lengths", "bool", "int32 or int64", {"lengths": torch.tensor([True, False])}),
    ("documents", "uint8", "int32 or int64", {"documents": torch.ones(2, 3, dtype=torch.uint8)}),
    ("lengths", "int", "array", {"lengths": 3}),
    ("allowed", "float64", "bool or uint8", {"allowed": states(3)}),
    ("allowed", "int64", "bool or uint8", {"allowed": torch.ones(1, 1, 3, 3, dtype=torch.int64)}),
    ("parameters", "list", "dict", {"parameters": [1.0]}),
    ("parameters", "other names", "text", {"parameters": {3: states(3)}}),
    ("causal", "'no'", "True or False", {"causal": "no"}),
    ("causal", "3 queries and 2 keys", "no more queries", {"causal": True, "key": states(2)}),
    ("lengths", "'a'", "whole number", {"lengths": ["a", 3]}),
    ("lengths", "2.5", "whole number", {"lengths": [2.5, 3]}),
    ("lengths", "True", "whole number", {"lengths": [True, False]}),
    ("lengths", "[1, 2]", "one dimension", {"lengths": torch.tensor([[3, 3]])}),
    ("msk", "msk", "query, key, value, mask", {"msk": states(3)}),
    ("weight", "weight", "query.weight", {"parameters": {"weight": states(3)}}),
    ("heads", "-2", "from 1", {"heads": -2}),
    ("heads", "0", "from 1", {"heads": 0}),
    ("heads", "2.0", "whole number", {"heads": 2.0}),
    ("seed", "-1", "from 0", {"seed": -1}),
    ("place", "3", "encoder", {"place": 3}),
    ("specification", "None", "text", {"specification": None}),
])
def test_an_argument_of_a_wrong_type_is_one_line_with_what_was_found(named, found, expected, arguments):
    with pytest.raises(ValueError) as error:
        fovea.attend(**{"specification": "global", "query": states(3), **arguments})
    message = str(error.value)
    assert named in message and found in message and expected in message and "\n" not in message


def test_the_modules_of_torch_name_a_wrong_argument_too():
    attention = Attention("global", model_dim=D, heads=2)
    with pytest.raises(ValueError, match="query.* float64; expected float32|query.weight is float32; expected float64"):
        attention(states(3))
    with pytest.raises(ValueError, match="no argument 'msk'; did you mean 'mask'"):
        attention(states(3, torch.float32), msk=states(3, torch.float32))
    with pytest.raises(ValueError, match="query: found ndarray; expected a tensor"):
        attention(states(3, torch.float32).numpy())
    with pytest.raises(ValueError, match="heads: found 0"):
        Attention("global", model_dim=D, heads=0)
    with pytest.raises(ValueError, match="layer: found 2; expected a whole number from 0 to 1"):
        Attention("global", model_dim=D, heads=2, layer=2, layers=2)


def test_a_dropout_of_numpy_is_a_number():
    assert Attention("global", model_dim=D, heads=2, dropout=numpy.float32(0.5))._shape["dropout"] == 0.5


def test_training_without_dropout_draws_no_random_numbers():
    attention, x = Attention("global", model_dim=D, heads=2), states(3, torch.float32)
    before = torch.get_rng_state()
    attention(x)
    assert torch.equal(torch.get_rng_state(), before)


def test_lengths_may_be_a_list():
    x = states(6)
    expected = fovea.attend("global", x, lengths=torch.tensor([6, 3]))
    assert torch.equal(fovea.attend("global", x, lengths=[6, 3]), expected)
    attention = Attention("global", model_dim=D, heads=2).double()
    assert torch.equal(attention(x, lengths=[6, 3]), attention(x, lengths=torch.tensor([6, 3])))


@pytest.mark.parametrize("method", fovea.methods())
def test_results_changed_in_place_do_not_change_gradients(method):
    for place in usable_places(method):
        attention = randomised(Attention(method, model_dim=D, heads=2, place=place).double()).eval()
        x = states(4).requires_grad_()
        inputs = {"key": states(5, seed=8)} if place == "cross" else {}
        if method == "man":
            inputs["mask"] = torch.full((1, 1, 4, 5 if inputs else 4), 0.5, dtype=torch.float64)
        leaves = [x, *attention.parameters()]
        def gradients(out):
            return torch.autograd.grad(out.square().sum(), leaves, allow_unused=True)
        expected = gradients(attention(x, **inputs).relu())
        trace = {}
        out = attention(x, trace=trace, **inputs)
        out.relu_()
        for value in trace.values():
            value.zero_()
        for a, b in zip(gradients(out), expected):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def test_weights_that_are_asked_for_leave_the_backward_pass_as_it_is():
    attention = MultiheadAttention("global", 8, 2)
    x = torch.rand(2, 5, 8, requires_grad=True)
    attention(x, x, x, need_weights=False)[0].sum().backward()
    expected, x.grad = x.grad, None
    out, weights = attention(x, x, x)
    out.sum().backward()
    assert weights.shape == (2, 5, 5) and torch.equal(x.grad, expected)


def test_a_call_without_a_trace_needs_no_matrix_of_weights(tmp_path):
    """4 heads of 4096 x 4096 weights are 256 MiB. A process of its own: the peak of memory never falls."""
    program = """
import re, numpy, fovea
def peak():  # in KiB; ru_maxrss would include the process that started this one
    return int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1])
x = numpy.random.rand(1, 4096, 16).astype("f")
fovea.attend("global", x[:, :64], heads=4)
before = peak()
fovea.attend("global", x, heads=4)
print(peak() - before)
"""
    run = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert int(run.stdout) < 32 << 10  # KiB


def test_modules_are_copied_pickled_and_saved():
    attention = Attention("gaussian(window=query)", model_dim=D, heads=2)
    x = states(4, torch.float32)
    saved = io.BytesIO()
    torch.save(attention, saved)
    saved.seek(0)
    for other in (copy.deepcopy(attention), pickle.loads(pickle.dumps(attention)),
                  torch.load(saved, weights_only=False)):
        assert torch.equal(other(x), attention(x))
        with torch.no_grad():
            other.query.weight.add_(1)
        assert not torch.equal(other(x), attention(x))


@pytest.mark.parametrize("training", [True, False])
def test_a_transformer_encoder_takes_it(training):
    torch.manual_seed(4)
    layer = torch.nn.TransformerEncoderLayer(D, 2, 11, dropout=0.0, batch_first=True).double()
    expected = torch.nn.TransformerEncoder(copy.deepcopy(layer), 2).train(training)
    layer.self_attn = with_weights_of(layer.self_attn, MultiheadAttention("global", D, 2).double())
    encoder = torch.nn.TransformerEncoder(layer, 2).train(training)
    x = states(5).requires_grad_()
    causal = torch.nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
    for mask in ({}, {"mask": causal, "is_causal": True}):
        torch.testing.assert_close(encoder(x, **mask), expected(x, **mask), rtol=0, atol=1e-12)
    encoder(x).sum().backward()
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with torch.no_grad():
        ours, theirs = (each(x, src_key_padding_mask=padding) for each in (encoder, expected))
    torch.testing.assert_close(ours[0], theirs[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(ours[1, :3], theirs[1, :3], rtol=0, atol=1e-12)


def test_is_causal_needs_a_mask():
    x = states(4)
    attention = MultiheadAttention("global", D, 2).double()
    with pytest.raises(ValueError, match="is_causal: found True without attn_mask; expected attn_mask"):
        attention(x, x, x, is_causal=True)
    MultiheadAttention("global", D, 2, place="decoder").double()(x, x, x, is_causal=True)


def test_a_parameter_that_changes_before_the_backward_pass_is_an_error():
    attention = Attention("relative(clip=2)", model_dim=D, heads=2)
    out = attention(states(4, torch.float32)).sum()
    with torch.no_grad():
        attention.query.weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_calls_that_overlap_have_their_own_gradients():
    attention = randomised(Attention("gaussian + relative(clip=2)", model_dim=D, heads=2).double())
    x, y = states(4).requires_grad_(), states(4, seed=6).requires_grad_()
    alone = torch.autograd.grad(attention(x).square().sum(), x)[0]
    first, second = attention(x).square().sum(), attention(y).square().sum()
    torch.autograd.grad(second, y)
    torch.testing.assert_close(torch.autograd.grad(first, x)[0], alone, rtol=0, atol=0)


def test_threads_beside_those_of_torch():
    attention = randomised(Attention("gaussian", model_dim=D, heads=2).double())
    expected = attention(states(50)).detach()
    results = [None] * 4
    def work(k):
        for _ in range(10):
            torch.rand(300, 300) @ torch.rand(300, 300)
            results[k] = attention(states(50)).detach()
    workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    [worker.start() for worker in workers]
    [worker.join() for worker in workers]
    for result in results:
        torch.testing.assert_close(result, expected, rtol=0, atol=0)


def test_dropout_follows_the_seed_of_torch():
    attention = Attention("global", model_dim=D, heads=2, dropout=0.5)
    x = states(9, torch.float32)
    def run(seed):
        torch.manual_seed(seed)
        return attention(x)
    assert torch.equal(run(1), run(1)) and not torch.equal(run(1), run(2))
    attention.eval()
    assert torch.equal(run(1), run(2))


def test_the_trace_has_weights_and_quantities():
    attention = randomised(Attention("gaussian(window=query)", model_dim=D, heads=2).double())
    trace = {}
    attention(states(4), lengths=torch.tensor([4, 3]), trace=trace)
    assert trace["weights"].shape == (2, 2, 4, 4) and trace["center"].shape == (2, 2, 4)
    torch.testing.assert_close(trace["weights"][1, :, :, 3], torch.zeros(2, 4, dtype=torch.float64), rtol=0, atol=0)
    both = randomised(Attention("heads(gaussian*1, gaussian(epsilon=2)*2)", model_dim=6, heads=3).double())
    both(torch.randn(2, 4, 6).double(), trace=trace)
    assert trace["center"].shape == (2, 1, 4) and trace["center_2"].shape == (2, 2, 4)


def test_training_lowers_a_loss_and_a_state_dict_restores_it():
    torch.manual_seed(0)
    attention = Attention("relative(clip=2) + window(use=additive)", model_dim=D, heads=2)
    model = torch.nn.ModuleList([attention, torch.nn.Linear(D, 1)])
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    x, target = states(6, torch.float32), states(6, torch.float32, seed=2).sum(-1, keepdim=True)
    losses = []
    for _ in range(30):
        loss = (model[1](attention(x)) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
    assert set(attention.state_dict()) == set(fovea.parameters(attention.specification, D, heads=2))
    other = Attention(attention.specification, model_dim=D, heads=2)
    other.load_state_dict(attention.state_dict())
    assert torch.equal(other(x), attention(x))
    parameters = {name: value.numpy() for name, value in attention.state_dict().items()}
    numpy.testing.assert_array_equal(fovea.attend(attention.specification, x.numpy(), heads=2, parameters=parameters),
                                     attention(x).detach().numpy())


def with_weights_of(theirs, ours):
    """Copies the weights of torch's attention."""
    with torch.no_grad():
        for k, name in enumerate(("query", "key", "value")):
            getattr(ours, name).weight.copy_(theirs.in_proj_weight[k * D:(k + 1) * D].T)
            getattr(ours, name).bias.copy_(theirs.in_proj_bias[k * D:(k + 1) * D])
        ours.output.weight.copy_(theirs.out_proj.weight.T)
        ours.output.bias.copy_(theirs.out_proj.bias)
    return ours


def test_it_stands_for_multihead_attention():
    torch.manual_seed(4)
    theirs = torch.nn.MultiheadAttention(D, 2, batch_first=True).double()
    torch.nn.init.normal_(theirs.in_proj_bias)
    ours = with_weights_of(theirs, MultiheadAttention("global", D, 2, place="cross").double())
    x, source = states(5), states(7, seed=8)
    at_the_end = torch.tensor([[False] * 7, [False] * 4 + [True] * 3])
    inside = torch.tensor([[False, True] + [False] * 5, [False] * 6 + [True]])
    pairs = torch.rand(5, 7) < 0.3
    pairs[:, 0] = False
    for_heads = torch.rand(4, 5, 7) < 0.3
    for_heads[:, :, 0] = False
    infinite = torch.zeros(5, 7, dtype=torch.float64).masked_fill(pairs, float("-inf"))
    for masks in ({}, {"key_padding_mask": at_the_end}, {"key_padding_mask": inside}, {"attn_mask": pairs},
                  {"attn_mask": infinite}, {"attn_mask": for_heads},
                  {"attn_mask": pairs, "key_padding_mask": at_the_end}):
        for average in (True, False):
            a = ours(x, source, source, average_attn_weights=average, **masks)
            b = theirs(x, source, source, average_attn_weights=average, **masks)
            for ours_, theirs_ in zip(a, b):
                torch.testing.assert_close(ours_, theirs_, rtol=0, atol=1e-12)
    assert ours(x, x, x, need_weights=False)[1] is None
    for name, message, mask in (("attn_mask", "expected truth values", torch.rand(5, 7)),
                                ("attn_mask", r"found \[3, 5, 7\]; expected \[5, 7\] or \[4, 5, 7\]", for_heads[:3]),
                                ("key_padding_mask", r"found \[7\]; expected \[2, 7\]", inside[0])):
        with pytest.raises(ValueError, match=f"{name}: {message}"):
            ours(x, source, source, **{name: mask})
    with pytest.raises(ValueError, match="attn_mask: found list; expected a tensor"):
        ours(x, source, source, attn_mask=pairs.tolist())


def test_a_parameter_may_be_computed_from_others():
    attention = Attention("global", model_dim=D, heads=2).double()
    x = states(4)
    expected = attention(x)
    torch.nn.utils.parametrizations.weight_norm(attention.query)
    torch.testing.assert_close(attention(x), expected, rtol=0, atol=1e-12)
    attention(x).sum().backward()
    assert attention.query.parametrizations.weight.original0.grad.abs().sum() > 0


@pytest.mark.parametrize("training", [True, False])
def test_an_encoder_layer_takes_it(training):
    torch.manual_seed(4)
    layer = torch.nn.TransformerEncoderLayer(D, 2, 11, dropout=0.0, batch_first=True).double().train(training)
    x = states(5).requires_grad_()
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    expected = layer(x, src_key_padding_mask=padding)
    slope = torch.autograd.grad(expected[0].square().sum(), x)[0]
    layer.self_attn = with_weights_of(layer.self_attn, MultiheadAttention("global", D, 2).double().train(training))
    out = layer(x, src_key_padding_mask=padding)
    torch.testing.assert_close(out[0], expected[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(out[1, :3], expected[1, :3], rtol=0, atol=1e-12)
    torch.testing.assert_close(torch.autograd.grad(out[0].square().sum(), x)[0], slope, rtol=0, atol=1e-11)


def test_an_encoder_whose_layers_it_has_joined_later_evaluates_padding():
    encoder = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
    for layer in encoder.layers:
        layer.self_attn = MultiheadAttention("gaussian", 8, 2)
    x, padding = states(5, torch.float32, width=8), torch.arange(5) >= torch.tensor([[3], [5]])
    with torch.no_grad():
        out = encoder.eval()(x, src_key_padding_mask=padding)
        torch.testing.assert_close(out[:1, :3], encoder(x[:1, :3]))


def test_each_sentence_has_the_length_of_its_own_padding():
    attention, x = MultiheadAttention("gaussian", 8, 2), states(5, torch.float32, width=8)
    at_end = torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]).bool()
    inside = torch.tensor([[0, 0, 0, 1, 1], [1, 0, 0, 0, 0]]).bool()
    one, other = (attention(x, x, x, key_padding_mask=mask)[0] for mask in (at_end, inside))
    torch.testing.assert_close(one[0], other[0])
    assert (one[1] - other[1]).abs().max() > 1e-3


def test_a_causal_mask_gives_the_lengths_of_causal_attention():
    attention, x = MultiheadAttention("gaussian", 8, 2), states(5, torch.float32, width=8)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(5)
    out = attention(x, x, x, attn_mask=mask, is_causal=True)[0]
    torch.testing.assert_close(out[:, :3], attention(x[:, :3], x[:, :3], x[:, :3], attn_mask=mask[:3, :3],
                                                     is_causal=True)[0])
    for same in (mask, mask.expand(4, 5, 5)):
        assert torch.equal(attention(x, x, x, attn_mask=same)[0], out)
    decoder = Attention("gaussian", model_dim=8, heads=2, place="decoder")
    decoder.load_state_dict(attention.state_dict())
    torch.testing.assert_close(out, decoder(x))


def test_an_encoder_refuses_keys_of_another_sequence():
    with pytest.raises(ValueError, match="key: found 7 tokens for 5 queries.*place='cross'"):
        Attention("relative", model_dim=8, heads=2)(states(5, width=8), states(7, width=8))


def test_parameters_have_the_default_type_of_torch():
    torch.set_default_dtype(torch.float64)
    try:
        assert Attention("global", model_dim=8, heads=2).query.weight.dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_methods_and_descriptions():
    assert {"gaussian", "relative", "window"} <= set(fovea.methods())
    card = fovea.describe("gaussian")
    assert card["name"] == "gaussian" and any(option["name"] == "window" for option in card["options"])


def test_the_page_is_right():
    """Runs the blocks of Python of README.md, one after the other."""
    page = (pathlib.Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 5
    names = {}
    for block in blocks:
        exec(block, names)
    assert names["out"].shape == (8, 512, 256) and all(x.grad is not None for x in names["attention"].parameters())
    for x in ("query", "table", "slope", "centre"):
        assert names[x].grad.abs().max() > 0
