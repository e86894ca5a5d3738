/// What tests of files, messages and processes share.
#pragma once
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tensor/error.h"
#include "tests/refusal.h"

namespace fovea {

/// A new, empty directory that goes when the test ends.
struct Folder {
  std::filesystem::path path;

  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "fovea-test-XXXXXX").string();
    require(::mkdtemp(name.data()) != nullptr, "cannot make the directory {}", name);
    path = name;
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path / name; }
  /// Writes a file, in a folder inside this one if its name has one, and returns its path.
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path / name).parent_path());
    std::ofstream(path / name, std::ios::binary) << text;
    return path / name;
  }
  /// The text without the path of the folder.
  std::string without(std::string text) const {
    for (std::size_t at; (at = text.find(path.string() + "/")) != std::string::npos;)
      text.erase(at, path.string().size() + 1);
    return text;
  }
  std::size_t files() const { return std::size_t(std::distance(std::filesystem::directory_iterator(path), {})); }
};

inline std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Runs the action in a child process. Its exit status, or minus the signal that ended it.
inline int status_in_child(const std::function<int()>& action) {
  std::fflush(nullptr);  // or the child would write it again
  pid_t child = ::fork();
  if (child == 0) ::_exit(action());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace fovea
