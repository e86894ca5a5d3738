#include "tensor/format/file_kind.h"

#include <algorithm>
#include <cctype>

#include <fmt/core.h>

namespace fovea {

namespace {

using namespace std::string_view_literals;

constexpr std::string_view from_torch =
    "in Python: safetensors.torch.save_file(torch.load(FILE), 'NEW.safetensors') converts a dictionary of tensors";
constexpr FileKind torch{"a PyTorch file (.pt, .bin)", from_torch};
constexpr FileKind numpy_archive{
    "a NumPy archive (.npz)",
    "in Python: safetensors.numpy.save_file(dict(numpy.load(FILE)), 'NEW.safetensors') converts it"};
constexpr FileKind json{"JSON text, such as a config.json", "the tensors are in another file beside it, *.safetensors"};
constexpr FileKind safetensors{"a safetensors file", "it holds tensors, such as those of a model"};

struct Magic {
  std::string_view bytes;
  FileKind kind;
};
constexpr Magic magics[] = {
    {"\x93NUMPY"sv,
     {"a NumPy array (.npy)",
      "in Python: safetensors.numpy.save_file({'NAME': numpy.load(FILE)}, 'NEW.safetensors') converts it"}},
    {"\x80\x02"sv, torch},
    {"\x80\x03"sv, torch},
    {"\x80\x04"sv, {"a Python pickle", from_torch}},
    {"\x80\x05"sv, {"a Python pickle", from_torch}},
    {"GGUF"sv, {"a GGUF model, as llama.cpp reads", "use the .safetensors files that the model was made from"}},
    {"\x89HDF\r\n\x1a\n"sv, {"an HDF5 file (.h5)", "in Python: h5py reads it, safetensors.numpy.save_file writes"}},
    {"version https://git-lfs"sv, {"a pointer of Git LFS, not the file itself", "git lfs pull fetches the file"}},
    {"\x1f\x8b"sv, {"compressed with gzip", "gunzip FILE unpacks it"}},
    {"BZh"sv, {"compressed with bzip2", "bunzip2 FILE unpacks it"}},
    {"\xfd"
     "7zXZ\0"sv,
     {"compressed with xz", "unxz FILE unpacks it"}},
    {"\x28\xb5\x2f\xfd"sv, {"compressed with zstd", "unzstd FILE unpacks it"}},
    {"7z\xbc\xaf\x27\x1c"sv, {"a 7-Zip archive", "unpack it first"}},
    {"PAR1"sv, {"a Parquet table", "in Python: pandas.read_parquet(FILE).to_csv('NEW.csv', index=False) converts it"}},
    {"ARROW1"sv, {"an Arrow table", "in Python: datasets.Dataset.from_file(FILE).to_csv('NEW.csv') converts it"}},
    {"SQLite format 3"sv, {"an SQLite database", "sqlite3 -csv FILE 'select ...' writes a table"}},
    {"%PDF"sv, {"a PDF document", "pdftotext FILE writes its text"}},
    {"\x7f"
     "ELF"sv,
     {"a program", "another file is meant"}},
    {"\xff\xfe\0\0"sv, {"text in UTF-32", "iconv -f UTF-32 -t UTF-8 FILE converts it"}},
    {"\0\0\xfe\xff"sv, {"text in UTF-32", "iconv -f UTF-32 -t UTF-8 FILE converts it"}},
    {"\xff\xfe"sv, {"text in UTF-16", "iconv -f UTF-16 -t UTF-8 FILE converts it"}},
    {"\xfe\xff"sv, {"text in UTF-16", "iconv -f UTF-16 -t UTF-8 FILE converts it"}},
};

/// Beginnings of documents of markup, in lower case.
constexpr FileKind page{"an HTML page", "perhaps the answer of a download that failed"};
constexpr FileKind document{"an XML document, such as TMX or SGML",
                            "write its texts into a file, one on each line, or into a table with a column for each"};
constexpr Magic markups[] = {{"<!doctype html"sv, page}, {"<html"sv, page},       {"<?xml"sv, document},
                             {"<!doctype "sv, document}, {"<tmx"sv, document},    {"<xliff"sv, document},
                             {"<srcset"sv, document},    {"<refset"sv, document}, {"<tstset"sv, document},
                             {"<mteval"sv, document}};

/// The kind of a document of markup, which may begin with a byte order mark and blank lines; nothing for others.
const FileKind* kind_of_markup(std::string_view bytes) {
  if (bytes.starts_with("\xef\xbb\xbf")) bytes.remove_prefix(3);
  bytes.remove_prefix(std::min(bytes.find_first_not_of(" \t\r\n"), bytes.size()));
  const auto begins = [&](const Magic& magic) {
    return std::ranges::equal(bytes.substr(0, magic.bytes.size()), magic.bytes, {},
                              [](unsigned char sign) { return std::tolower(sign); });
  };
  const auto found = std::ranges::find_if(markups, begins);
  return found == std::end(markups) ? nullptr : &found->kind;
}

std::size_t number_at(std::string_view bytes, std::size_t place, std::size_t size) {
  std::size_t number = 0;
  for (std::size_t k = size; k-- > 0;) number = number << 8 | static_cast<unsigned char>(bytes[place + k]);
  return number;
}

/// A zip archive is known by the name of the first file in it.
FileKind kind_of_zip(std::string_view bytes) {
  constexpr std::size_t header = 30, name_size_at = 26;
  if (bytes.size() > header) {
    const std::string_view name = bytes.substr(header, number_at(bytes, name_size_at, 2));
    if (name.ends_with(".npy")) return numpy_archive;
    if (name.find("/data.pkl") != name.npos || name.find("/version") != name.npos || name.starts_with("archive/"))
      return torch;
    if (name.starts_with("[Content_Types]") || name.starts_with("xl/"))
      return {"a document of an office program (.xlsx, .docx)", "save it as CSV or text"};
  }
  return {"a zip archive", "unzip FILE unpacks it"};
}

bool is_safetensors(std::string_view bytes) {
  constexpr std::size_t length_bytes = 8, limit = 100'000'000;
  return bytes.size() > length_bytes && number_at(bytes, 0, length_bytes) <= limit &&
         bytes.substr(length_bytes).starts_with("{\"");
}

}  // namespace

FileKind recognised_file(std::string_view bytes) {
  if (bytes.starts_with("PK\x03\x04") || bytes.starts_with("PK\x05\x06")) return kind_of_zip(bytes);
  for (const Magic& magic : magics)
    if (bytes.starts_with(magic.bytes)) return magic.kind;
  if (const FileKind* markup = kind_of_markup(bytes)) return *markup;
  constexpr std::size_t tar_mark_at = 257;
  if (bytes.size() > tar_mark_at && bytes.substr(tar_mark_at).starts_with("ustar"))
    return {"a tar archive", "tar xf FILE unpacks it"};
  if (is_safetensors(bytes)) return safetensors;
  const std::size_t first = bytes.find_first_not_of(" \t\r\n");
  if (first != bytes.npos && (bytes[first] == '{' || bytes[first] == '[')) return json;
  return {};
}

bool is_markup(std::string_view bytes) { return kind_of_markup(bytes) != nullptr; }

std::string wrong_format(std::string_view file, std::string_view first_bytes, std::string_view expected) {
  const FileKind kind = recognised_file(first_bytes);
  if (kind.name.empty() || kind.name == expected) return {};
  return fmt::format("{}: is {}, expected {}; {}", file, kind.name, expected, kind.advice);
}

}  // namespace fovea
