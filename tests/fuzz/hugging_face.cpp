// One file of a model of Hugging Face, which the first byte chooses; the others are as transformers wrote them.
#include "experiments/support/program/hugging_face.h"

#include <cstddef>
#include <fstream>
#include <string>

#include <unistd.h>

#include "experiments/support/data/hugging_face_vocabulary.h"
#include "tests/fuzz/fuzz.h"

using namespace fovea;
namespace fs = std::filesystem;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr const char* files[] = {
      "gpt2/config.json", "gpt2/vocab.json", "gpt2/merges.txt",     "gpt2/tokenizer.json",
      "bert/config.json", "bert/vocab.txt",  "bert/tokenizer.json", "bert/tokenizer_config.json",
      "t5/config.json",   "t5/spiece.model"};
  if (size == 0) return 0;
  static const fs::path folder = fs::temp_directory_path() / ("fovea-fuzz-" + std::to_string(::getpid()));
  const fs::path name = files[data[0] % std::size(files)], model = folder / name.parent_path();
  fs::create_directories(model);
  fs::copy("tests/goldens/hugging_face" / name.parent_path(), model, fs::copy_options::recursive);
  if (name.filename() == "tokenizer.json")  // then the only file with tokens
    for (const char* other : {"vocab.json", "merges.txt", "vocab.txt"}) fs::remove(model / other);
  std::ofstream(folder / name).write(reinterpret_cast<const char*>(data + 1), std::streamsize(size - 1));
  accept_or_explain([&] {
    if (is_hugging_face(model)) hugging_face_flags(model);
  });
  accept_or_explain([&] { hugging_face_classes(model); });
  accept_or_explain([&] { hugging_face_vocabulary(model); });
  fs::remove_all(folder);
  return 0;
}
