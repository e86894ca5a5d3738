/// A file that grows during a run and survives a kill.
#pragma once
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace fovea {

/// Appends to a file. When append() returns, the operating system has the bytes, so that a killed run loses none;
/// sync() makes them survive a power cut as well. All functions throw Error, with the file's name, if they fail.
class GrowingFile {
 public:
  GrowingFile() = default;  ///< no file yet: can only be assigned to
  /// Opens the file and removes all but its first `kept` bytes. Creates a missing file.
  GrowingFile(std::filesystem::path path, std::size_t kept);

  void append(std::string_view bytes);
  /// Waits until everything is on the disk: before a checkpoint is written, for example.
  void sync();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
};

/// The bytes of a file. Throws Error for a directory and for a file that cannot be read.
std::string contents_of_file(const std::filesystem::path& path);

}  // namespace fovea
