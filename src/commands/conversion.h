#pragma once
// Copies the files of one tree into the files of another: the part of `codecfs convert` between opening both and
// finishing the new one.

#include <atomic>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/progress_reporter.h"
#include "commands/convert.h"
#include "commands/convert_target.h"
#include "commands/dataset_info.h"
#include "commands/nczarr_layout.h"
#include "commands/omissions.h"
#include "commands/tree_files.h"
#include "model/json_value.h"

namespace codecfs::commands {

class Conversion {
 public:
  /// `resumed`: the target may have some of the files. What cannot be taken along is added to `omissions`; once there
  /// is one for which the conversion fails, only metadata is copied, which finds the others. `nczarr`: the form of the
  /// copy if that is NCZarr, else null. `as_netcdf`: it is a file of netCDF. All must outlive this object.
  Conversion(TreeFiles& from, ConvertTarget& to, bool resumed, const DatasetInfo& info, Omissions& omissions,
             ProgressReporter& progress, const NczarrLayout* nczarr, bool as_netcdf)
      : from_(from),
        to_(to),
        resumed_(resumed),
        info_(info),
        omissions_(omissions),
        progress_(progress),
        nczarr_(nczarr),
        as_netcdf_(as_netcdf) {}

  Result<Converted> run();

 private:
  using Directory = ConvertTarget::Directory;
  struct Chunk {
    TreeFiles::Ino from;
    Directory to;
    std::string name;
    std::string path;
    const NczarrLayout::Array* texts = nullptr;  // of any length, which become texts of `length` bytes
    uint64_t length = 0;
  };

  struct LinksMade {
    uint64_t count = 0;
    std::string first;
    [[nodiscard]] std::string text() const;
  };

  /// What an error is of: the conversion itself, the source's variable or group, or the form of this in the target.
  enum class Blame { conversion, source, target };

  std::unexpected<Error> blame(Blame cause, Error error);
  Result<std::string> name_in_copy(TreeFiles::Ino from, const std::string& name, const std::string& path);
  Result<> copy_member(TreeFiles::Ino from, const Directory& to, const std::string& name, const std::string& path);
  int place_in_order(const std::string& path);
  Result<> copy_directory(TreeFiles::Ino from, const Directory& to, const std::string& path);
  Result<> read_text(TreeFiles::Ino file, std::string& text);
  Result<bool> copy_attributes_first(TreeFiles::Ino from, const Directory& to, const std::string& path);
  Result<> copy_metadata(TreeFiles::Ino from, const Directory& to, const std::string& name, const std::string& path);
  [[nodiscard]] bool keep_filters(TreeFiles::Ino variable, const std::string& path);
  Result<> copy_without_rule(TreeFiles::Ino from, const Directory& to, const std::string& name, const std::string& path,
                             const Error& refusal);
  void warn_of_rules();
  void drop_omitted_links(Json& attributes, const std::string& directory) const;
  [[nodiscard]] Result<std::string> without_omitted(std::string_view text, std::string_view name,
                                                    const std::string& directory) const;
  // conversion_nczarr.cc
  Result<> copy_nczarr_array(TreeFiles::Ino from, const Directory& to, const std::string& path);
  Result<> write_nczarr_group(const Directory& to, const std::string& path);
  Result<uint64_t> longest_text(const NczarrLayout::Array& array);
  Result<> copy_texts(const Chunk& chunk);
  Result<> copy_link(TreeFiles::Ino from, const Directory& to, const std::string& name, const std::string& path);
  Result<> restore_types(TreeFiles::Ino from, const Directory& to);
  Result<bool> note_link(TreeFiles::Ino from, const Directory& to, const std::string& name, const std::string& path);
  using Notes = std::map<std::string, JsonValue>;  // by file names
  Result<const Notes*> notes_of(TreeFiles::Ino group);
  Result<std::optional<std::string>> restored_name(TreeFiles::Ino from, const std::string& name);
  [[nodiscard]] std::string path_in_copy(const std::string& group, const std::string& text, bool is_of_keys) const;
  [[nodiscard]] Json note_for_copy(Json note, const std::string& path) const;
  Result<> restore_links();
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
  const NczarrLayout* const nczarr_;
  const bool as_netcdf_;
  std::unordered_map<std::string, const Variable*> variables_;  // by path; for place_in_order()
  Blame blame_ = Blame::conversion;                             // of the error that is being returned
  std::set<std::string> copied_;                                // paths of variables and groups
  /// NCZarr: the members of each group that were made.
  struct Members {
    std::vector<std::string> arrays;
    std::vector<std::string> groups;
  };
  std::map<std::string, Members> made_;
  std::map<std::string, uint64_t> text_lengths_;  // NCZarr: of arrays of texts
  std::vector<Chunk> chunks_waiting_;
  struct NotedLink {
    Directory to;
    std::string name;
    std::string path;
    JsonValue note;
  };
  std::map<ObjectId, Notes> notes_;  // of groups
  std::map<std::string, std::string>
      restored_;                        // file names in the copy that are others than in the source, by paths there
  std::vector<NotedLink> noted_links_;  // made when all that they may lead to is there
  LinksMade links_;
  LinksMade external_links_;
  LinksMade links_left_out_;   // of files, in a copy that has notes at most
  uint64_t without_rule_ = 0;  // variables that keep their filters, whatever the rule for all says
  std::string first_without_rule_;
  std::atomic<uint64_t> chunks_ = 0;
  std::atomic<uint64_t> bytes_ = 0;
  std::atomic<uint64_t> present_ = 0;
  Converted done_;
};

}  // namespace codecfs::commands
