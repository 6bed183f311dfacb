#pragma once
// Mounts without a kernel that mounts. fake_mounts.cc replaces, for the whole test program, the mount table
// (base/mount_table.h), and the system calls with which src/mount asks about a mount: statvfs, getxattr, fgetxattr and
// syncfs. FakePrograms replaces umount(8) and fusermount3(1).

#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mount_table.h"

namespace codecfs {

/// The answers during its lifetime. At other times they are those of the kernel, and the mount table is empty.
struct FakeMounts {
  FakeMounts() { current() = this; }
  ~FakeMounts() { current() = nullptr; }
  FakeMounts(const FakeMounts&) = delete;
  FakeMounts& operator=(const FakeMounts&) = delete;
  static FakeMounts*& current();

  std::vector<MountEntry> table;
  /// The errno of statvfs of a path; 0 for success. Other paths: the kernel's answer.
  std::map<std::string, std::function<int()>> statvfs;
  /// The value of an extended attribute, or none; called with the path.
  std::function<std::optional<std::string>(const std::string& path, std::string_view name)> attribute;
  /// The value of user._Error.
  std::string error_text;
  int sync_error = 0;  // the errno of syncfs
  int syncs = 0;       // calls of syncfs
};

/// During its lifetime, the programs that src/mount starts are scripts, which record how they are called.
class FakePrograms {
 public:
  FakePrograms() : path_before_(getenv("PATH")) {
    std::string pattern = (std::filesystem::temp_directory_path() / "codecfs_programs_XXXXXX").string();
    directory_ = mkdtemp(pattern.data());
    for (const char* name : {"umount", "fusermount3", "mount"}) {
      std::ofstream(directory_ / name) << "#!/bin/sh\n"
                                       << "cd '" << directory_.string() << "' || exit 99\n"
                                       << "echo \"${0##*/} $*\" >> calls\n"
                                       << "[ ! -e program ] || . ./program\n"
                                       << "exit 0\n";
      std::filesystem::permissions(directory_ / name, std::filesystem::perms::owner_all);
    }
    setenv("PATH", directory_.c_str(), 1);
  }
  ~FakePrograms() {
    setenv("PATH", path_before_.c_str(), 1);
    std::filesystem::remove_all(directory_);
  }
  FakePrograms(const FakePrograms&) = delete;
  FakePrograms& operator=(const FakePrograms&) = delete;

  /// Shell commands that the programs run in the directory, for instance "exit 32". No other programs are found.
  void run(const std::string& commands) const {
    std::ofstream(directory_ / "new") << commands << '\n';
    std::filesystem::rename(directory_ / "new", directory_ / "program");
  }
  /// "umount -i -- /mnt" and so on.
  [[nodiscard]] std::vector<std::string> calls() const {
    std::vector<std::string> lines;
    std::ifstream file(directory_ / "calls");
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
  [[nodiscard]] const std::filesystem::path& directory() const { return directory_; }

  /// How this user unmounts: "umount -i -- DIRECTORY", or "fusermount3 -u -- DIRECTORY" for other users than root.
  static std::string unmounting(const std::string& directory) {
    return (geteuid() == 0 ? "umount -i -- " : "fusermount3 -u -- ") + directory;
  }
  static std::string detaching(const std::string& directory) {
    return (geteuid() == 0 ? "umount -i -l -- " : "fusermount3 -uz -- ") + directory;
  }

 private:
  std::string path_before_;
  std::filesystem::path directory_;
};

}  // namespace codecfs
