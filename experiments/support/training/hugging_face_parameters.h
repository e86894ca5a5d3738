/// The parameters of models of Hugging Face (program/hugging_face.h).
#pragma once
#include <filesystem>

#include "nn/module.h"

namespace fovea {

/// Copies the tensors of a model's folder (model.safetensors, or the files that model.safetensors.index.json names)
/// into the model's parameters. Parameters that the folder's model does not have keep their values: those of attention
/// methods, which are added to it, biases where it has none, and a classifier. Prints the names of the others among
/// them, and of tensors that the model has no place for. Throws Error, with the file and the tensor, if one is missing
/// or of another shape than the parameter, and for files of another format.
void load_hugging_face(Module& model, const std::filesystem::path& folder);

}  // namespace fovea
