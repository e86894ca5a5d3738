#!/usr/bin/env python3
"""Tensor files as NumPy and the safetensors package write and read them (pip install numpy safetensors ml_dtypes).

tensor_files.py write   makes the files of tests/goldens that fovea reads
tensor_files.py check   reads with both packages every file there, those that fovea wrote as well
"""
import json
import pathlib
import sys
import zlib

import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy

folder = pathlib.Path(__file__).resolve().parent.parent / "goldens"

# One formula for all files; tests/tensor/tensor_files.h has it too. The integers need more bits than an f32 or f64 has.
SCALES = {"float32": (0.25, 0), "float64": (0.1, 0), "bfloat16": (0.25, 0), "int32": (2**26, 1), "int64": (2**58, 1),
          "uint8": (20, 60), "bool": (0, 0)}


def values(dtype, shape):
    dtype = np.dtype(dtype)
    pattern = np.arange(int(np.prod(shape)), dtype=np.int64) * 7 % 11 - 3
    if dtype == bool:
        return (pattern % 2 == 1).reshape(shape)
    scale, offset = SCALES[dtype.name]
    return (pattern * scale + offset).astype(dtype).reshape(shape)


# What the package writes, in the order that it makes of it: by type, then by name.
EVERY_TYPE = [("ids", "int64", (5,)), ("cube", "float64", (2, 1, 3)), ("scalar", "float32", ()),
              ("weight", "float32", (3, 4)), ("steps", "int32", (2, 3)), ("half", ml_dtypes.bfloat16, (3, 3)),
              ("bytes", "uint8", (2, 2)), ("empty", "uint8", (0, 4)), ("mask", "bool", (7,))]
# What fovea writes: in the caller's order, with names that need care.
IN_ORDER = [("mask", "bool", (3,)), ("encoder.0.weight", "float32", (2, 3)), ("σ \"quoted\"\\\n", "float64", (2,)),
            ("bytes", "uint8", (5,)), ("nothing", "float64", (2, 0, 3)), ("ids", "int64", ())]

NPY = {"f32.npy": ("float32", (3, 4)), "f64.npy": ("float64", (2, 1, 3)), "i32.npy": ("int32", (5,)),
       "i64.npy": ("int64", (2, 3)), "u8.npy": ("uint8", (7,)), "bool.npy": ("bool", (1, 5)),
       "scalar.npy": ("float64", ()), "empty.npy": ("float32", (0, 4)),
       "rank8.npy": ("uint8", (1, 2, 1, 2, 1, 3, 1, 2))}
OTHER_VERSIONS = {"version2.npy": (2, 0), "version3.npy": (3, 0)}
REFUSED = {"big_endian.npy": np.arange(3, dtype=">f4"), "bf16.npy": np.arange(3).astype(ml_dtypes.bfloat16),
           "structured.npy": np.zeros(2, [("a", "<f4")])}


def half():
    """Half-precision numbers [4, 7]: subnormal ones, the largest, the smallest, infinities, NaNs with a payload."""
    special = np.array([0x0001, 0x83ff, 0x0400, 0x8400, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e15, 0xfe00, 0x8000, 0x0155],
                       np.uint16)
    random = np.random.default_rng(7).normal(0.3, 40, 16).astype(np.float16).view(np.uint16)
    return np.concatenate([special, random]).view(np.float16).reshape(4, 7)


def write_half():
    np.save(folder / "f16.npy", np.asfortranarray(half()))
    np.save(folder / "f16_as_f32.npy", half().astype(np.float32))
    tensors = {"h": half(), "odd": half()[0, :3].copy(), "whole": values("int64", (3,))}
    safetensors.numpy.save_file(tensors, folder / "f16.safetensors")


def write():
    write_half()
    tensors = {name: values(dtype, shape) for name, dtype, shape in EVERY_TYPE}
    safetensors.numpy.save_file(tensors, folder / "every_type.safetensors", {"format": "np"})
    for name, (dtype, shape) in NPY.items():
        np.save(folder / name, values(dtype, shape))
    np.save(folder / "fortran.npy", np.asfortranarray(values("float32", (2, 3, 4))))
    for name, version in OTHER_VERSIONS.items():
        with open(folder / name, "wb") as file:
            np.lib.format.write_array(file, values("float32", (3, 4)), version)
    for name, array in REFUSED.items():
        np.save(folder / name, array)


def same(name, found, expected):
    assert found.dtype == expected.dtype and found.shape == expected.shape, (name, found.dtype, found.shape)
    assert found.tobytes() == expected.tobytes(), (name, found, expected)


def check_checksums(file):
    """What tensor/format/safetensors.cpp says of its checksums, with another CRC-32."""
    length = int.from_bytes(file[:8], "little")
    text, data = file[8:8 + length], file[8 + length:]
    header = json.loads(text)
    checksums = header.pop("__metadata__")["fovea.checksums"]
    mark, of_header, *of_tensors = checksums.split()
    blank = checksums.replace(f"{mark} {of_header}", f"{mark} 00000000")
    assert mark == "fovea.crc32" and f"{zlib.crc32(text.replace(checksums.encode(), blank.encode())):08x}" == of_header
    spans = [tensor["data_offsets"] for tensor in header.values()]
    assert of_tensors == [f"{zlib.crc32(data[begin:end]):08x}" for begin, end in spans]
    print("checksums of written_by_fovea.safetensors")


def check():
    for name, expected in (("every_type.safetensors", EVERY_TYPE), ("written_by_fovea.safetensors", IN_ORDER)):
        with safetensors.safe_open(folder / name, "np") as file:
            assert sorted(file.keys()) == sorted(key for key, _, _ in expected), (name, file.keys())
            for key, dtype, shape in expected:
                same(f"{name}: {key}", file.get_tensor(key), values(dtype, shape))
            print(name, file.metadata())
    check_checksums((folder / "written_by_fovea.safetensors").read_bytes())
    for name, (dtype, shape) in NPY.items():
        same(name, np.load(folder / name), values(dtype, shape))
        print(name)


{"write": write, "check": check}[sys.argv[1]]()
