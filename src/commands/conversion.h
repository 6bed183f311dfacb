#pragma once
// Copies the files of one tree into the files of another: the part of `codecfs convert` between opening both and
// finishing the new one.

#include <atomic>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress_reporter.h"
#include "commands/convert.h"
#include "commands/convert_target.h"
#include "commands/dataset_info.h"
#include "commands/omissions.h"
#include "commands/tree_files.h"

namespace codecfs::commands {

class Conversion {
 public:
  /// `resumed`: the target may have some of the files. What cannot be taken along is added to `omissions`; once there
  /// is one for which the conversion fails, only metadata is copied, which finds the others. All must outlive this
  /// object.
  Conversion(TreeFiles& from, ConvertTarget& to, bool resumed, const DatasetInfo& info, Omissions& omissions,
             ProgressReporter& progress)
      : from_(from), to_(to), resumed_(resumed), info_(info), omissions_(omissions), progress_(progress) {}

  Result<Converted> run();

 private:
  using Directory = ConvertTarget::Directory;
  struct Chunk {
    TreeFiles::Ino from;
    Directory to;
    std::string name;
    std::string path;
  };

  struct LinksMade {
    uint64_t count = 0;
    std::string first;
    [[nodiscard]] std::string text() const;
  };

  /// What an error is of: the conversion itself, the source's variable or group, or the form of this in the target.
  enum class Blame { conversion, source, target };

  std::unexpected<Error> blame(Blame whom, Error error);
  Result<> copy_member(TreeFiles::Ino from, const Directory& to, const std::string& name, const std::string& path);
  Result<> copy_directory(TreeFiles::Ino from, const Directory& to, const std::string& path);
  Result<bool> copy_attributes_first(TreeFiles::Ino from, const Directory& to, const std::string& path);
  Result<> copy_metadata(TreeFiles::Ino from, const Directory& to, const std::string& name, const std::string& path);
  [[nodiscard]] Result<std::string> without_omitted(std::string_view text, std::string_view name,
                                                    const std::string& directory) const;
  Result<> copy_link(TreeFiles::Ino from, const Directory& to, const std::string& name, const std::string& path);
  void warn_of_links();
  Result<> copy_batch();
  Result<> copy_chunk(const Chunk& chunk);
  void find_unlisted();

  TreeFiles& from_;
  ConvertTarget& to_;
  const bool resumed_;
  const DatasetInfo& info_;
  Omissions& omissions_;
  ProgressReporter& progress_;
  Blame blame_ = Blame::conversion;  // of the error that is being returned
  std::set<std::string> copied_;     // paths of variables and groups
  std::vector<Chunk> chunks_waiting_;
  LinksMade links_;
  LinksMade external_links_;
  std::atomic<uint64_t> chunks_ = 0;
  std::atomic<uint64_t> bytes_ = 0;
  std::atomic<uint64_t> present_ = 0;
  Converted done_;
};

}  // namespace codecfs::commands
