#pragma once
// What a conversion has done so far: DESTINATION.codecfs-partial, and beside it DESTINATION.codecfs-partial.json, a
// note of lines:
//
//   {"source":...}   of what it is a part
//   BOOT             the boot during which it was begun
//   copied           only once note_copied() was called

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "model/json_value.h"

namespace codecfs::commands {

/// The directory of a path, and its last name.
std::pair<std::string, std::string> split_path(std::string path);
bool is_there(const std::string& path);

/// Only one process has it at a time.
class Partial {
 public:
  /// `identity`: what has to be the same when it is resumed. EEXIST if the destination exists, or a partial one unless
  /// `resume` is set; EINVAL if that is of another conversion; EBUSY.
  static Result<Partial> begin(const std::string& destination, const Json& identity, bool resume);

  [[nodiscard]] std::string path() const { return directory_ + "/" + name_; }
  [[nodiscard]] const std::string& directory() const { return directory_; }

  /// After another boot, a file may have its size and not its content.
  [[nodiscard]] bool is_of_this_boot() const { return is_of_this_boot_; }
  /// Whether a source is there completely and durably, and only has to be changed.
  [[nodiscard]] bool is_copied() const { return is_copied_; }
  Result<> note_copied();

  /// The paths of everything that there is of it, quoted for a shell.
  [[nodiscard]] std::string leftovers() const;
  /// Removes everything.
  void discard() const;
  /// Gives the complete result its name, and its readers (copy_access.h). It is private before.
  Result<> finish(const std::string& source) const;

 private:
  [[nodiscard]] std::vector<std::string> files() const;

  std::string directory_;
  std::string destination_;  // its last name
  std::string name_;
  UniqueFd note_;
  std::string text_;  // of the note
  bool is_of_this_boot_ = true;
  bool is_copied_ = false;
};

}  // namespace codecfs::commands
