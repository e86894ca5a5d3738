/// Models as Hugging Face's transformers publishes them: folders with config.json, model.safetensors and the files of a
/// vocabulary. Programs read such a folder where they read the directory of a run. Here are the flags that make the
/// model; data/hugging_face_vocabulary.h has its tokens, training/hugging_face_parameters.h its parameters.
#pragma once
#include <filesystem>

#include "experiments/support/program/json_file.h"

namespace fovea {

class Cli;

/// Whether this is a folder whose config.json describes a model of transformers.
bool is_hugging_face(const std::filesystem::path& folder);

/// The configuration of a program, with the key "program", whose flags make the model of such a folder. Throws Error,
/// with the file and the key, for another architecture than gpt2, bert and t5, and for a model of them that ours cannot
/// be.
Json hugging_face_flags(const std::filesystem::path& folder);
/// The same for the program of `cli`, without "program": an encoder-decoder, for example, is one for all programs that
/// have them. Throws Error if the program lacks a flag.
Json hugging_face_flags(const std::filesystem::path& folder, const Cli& cli);

/// The classes of a classifier, in the order of their numbers (id2label). Where config.json names none, there are two,
/// as in transformers. Throws Error if one has no name.
std::vector<std::string> hugging_face_classes(const std::filesystem::path& folder);

}  // namespace fovea
