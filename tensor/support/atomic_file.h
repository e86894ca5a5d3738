/// Writing a file as a whole or not at all: at any time, and after a crash, the path holds either the complete old file
/// or the complete new one.
#pragma once
#include <cstddef>
#include <filesystem>
#include <string_view>

namespace fovea {

/// A new version of the file PATH. write() writes to `PATH.partial` in the same directory; commit() makes the data
/// durable (fsync) and renames PATH.partial to PATH. Without commit() the destructor removes PATH.partial and PATH
/// stays as it was.
///
/// The writer holds a lock on PATH.partial: a second writer of the same path throws Error. The next writer overwrites a
/// PATH.partial that a killed process left. If PATH is a symbolic link, the link stays and its target is replaced. The
/// new file gets the permissions of the file it replaces. Devices and pipes (/dev/stdout) are written to directly.
///
/// Every failure throws Error with the path and the reason (no space, no permission, a directory, ...).
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Writes to the system at once: pass a file of many small parts as one text.
  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }

  /// Replaces the old file by the new one. Nothing can be written afterwards.
  void commit();

 private:
  void open_partial();
  [[noreturn]] void fail_with(int error_number) const;

  std::filesystem::path path_;     ///< as the caller gave it, for error messages
  std::filesystem::path target_;   ///< `path_` with symbolic links resolved
  std::filesystem::path partial_;  ///< PATH.partial; empty if `target_` is written directly
  int descriptor_ = -1;
};

/// Replaces the contents of `path` in one step; see AtomicFile.
void write_file_atomically(const std::filesystem::path& path, std::string_view contents);

}  // namespace fovea
