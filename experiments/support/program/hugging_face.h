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

/// Returns the flags with which a program builds the model of a Hugging Face folder, as in Cli::configuration():
/// "program" names the program, every other key is a flag with its value. Throws Error with the file for a model_type
/// other than gpt2, bert and t5, and with file and key for a missing key and for a value that our models do not have.
Json hugging_face_flags(const std::filesystem::path& folder);
/// The same for the program of `cli`, without "program": an encoder-decoder, for example, is one for all programs that
/// have them. Throws Error if the program lacks a flag.
Json hugging_face_flags(const std::filesystem::path& folder, const Cli& cli);

/// The classes of a classifier, in the order of their numbers (id2label). Where config.json names none, there are two,
/// LABEL_0 and LABEL_1, as in transformers. Throws Error if a number is missing, or if a name is empty, has several
/// lines or occurs twice.
std::vector<std::string> hugging_face_classes(const std::filesystem::path& folder);

}  // namespace fovea
