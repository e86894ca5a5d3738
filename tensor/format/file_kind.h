/// Recognises files of other formats by their first bytes, so that an error can say what a file is.
#pragma once
#include <string>
#include <string_view>

namespace fovea {

/// The number of first bytes that recognised_file() can make use of.
inline constexpr std::size_t recognised_bytes = 512;

/// "a NumPy array (.npy)", and how its content can be read: a command, or the file to use instead. Both are empty if
/// the bytes are those of no known format, or of text.
struct FileKind {
  std::string_view name, advice;
};
FileKind recognised_file(std::string_view first_bytes);

/// Whether the bytes begin an HTML page or an XML document, perhaps behind a byte order mark and blank lines.
bool is_markup(std::string_view first_bytes);

/// "model.pt: is a PyTorch file, expected a safetensors file; ADVICE", or an empty string for unknown bytes.
std::string wrong_format(std::string_view file, std::string_view first_bytes, std::string_view expected);

}  // namespace fovea
