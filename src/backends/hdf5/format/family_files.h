#pragma once
// The files of HDF5's family driver: one file that is cut into members of one size, which are numbered from 0.
// Only read here. Thread-safe.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/file_io.h"
#include "base/result.h"

namespace codecfs::hdf5 {

class FamilyFiles {
 public:
  /// Opens the other members in the directory of the first one, regular files and no symbolic links. None if the file
  /// does not belong to a family. ENOENT: a member is missing; EOPNOTSUPP: the file was written by the split or multi
  /// driver; EIO.
  static Result<std::optional<FamilyFiles>> open(const File& directory, const std::string& name, const File& first);

  /// Bytes of the whole file, as far as its members have them.
  [[nodiscard]] uint64_t size() const { return size_; }
  /// The number of members.
  [[nodiscard]] size_t count() const { return others_.size() + 1; }
  /// The path of the members with a printf pattern for the number, as the tools of HDF5 expect it.
  [[nodiscard]] const std::string& pattern() const { return pattern_; }
  /// Reads up to to.size() bytes, fewer at the end of the file or of a truncated member. EIO.
  Result<size_t> read(const File& first, uint64_t offset, MutableBytes to) const;

 private:
  static std::optional<FamilyFiles> open_unmarked(const File& directory, const std::string& name, uint64_t member_bytes,
                                                  uint64_t file_bytes);

  std::vector<File> others_;  // without the first
  std::string pattern_;
  uint64_t member_bytes_ = 0;
  uint64_t size_ = 0;
};

/// The names that the members may have, of which `name` is the first: each is a printf pattern with the number
/// ("a%05d.h5").
std::vector<std::string> family_patterns(const std::string& name);
/// The name of a member.
std::string family_member(const std::string& pattern, uint64_t number);

}  // namespace codecfs::hdf5
