#pragma once
// What a conversion cannot take along: variables, groups and attributes that cannot be read, or that the new dataset
// cannot hold. Each makes the conversion fail, but for those that the user allows it to leave out.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "commands/convert.h"
#include "commands/dataset_info.h"

namespace codecfs::commands {

class Omissions {
 public:
  /// The normal paths of `options.skip`, with `options.skip_unsupported`.
  explicit Omissions(const ConvertOptions& options)
      : skip_(options.skip), skips_unsupported_(options.skip_unsupported), told_(options.told) {}

  /// `is_unsupported`: it is whole, but the format of the new dataset has no form for it.
  void add(std::string path, Error error, bool is_unsupported);
  /// Adds what `info` shows not to be readable, or to have no form in Zarr unless the conversion `keeps_all` that HDF5
  /// has.
  void add_found(const DatasetInfo& info, bool keeps_all);

  /// Adds the attributes that Zarr has no form for, or that cannot be read, but for those that the user skips. Reads
  /// the attributes of all objects. EINVAL if the user skips an attribute that is not among them: others are copied.
  Result<> add_attributes(Source& source, const DatasetInfo& info);

  /// Adds the virtual datasets of which a source cannot be read, and warns of those of which one is not there: libhdf5
  /// reads the fill value for both.
  void add_unreadable_sources(Source& source, const DatasetInfo& info, std::vector<std::string>& warnings);

  /// Adds the variables that have a dimension of the same name as another one in their group, but of another length: it
  /// is one dimension in HDF5, which gives both the greater length.
  void add_unequal_dimensions(const DatasetInfo& info);

  /// Warns of the links to what is left out, by themselves or by way of other links: they stay, and lead nowhere.
  void warn_of_links(const DatasetInfo& info, std::vector<std::string>& warnings) const;

  /// Whether a path is one that the user skips, or of what was added, or below one of these.
  [[nodiscard]] bool covers(std::string_view path) const;
  [[nodiscard]] bool any() const { return !skip_.empty() || !found_.empty(); }
  /// Whether the user allows this omission.
  [[nodiscard]] bool allows(bool is_unsupported) const { return is_unsupported && skips_unsupported_; }
  /// Whether the conversion fails.
  [[nodiscard]] bool fails() const { return failures_ > 0; }
  /// The error with which it fails, after all that it cannot take along was told.
  [[nodiscard]] Error error() const;
  /// Tells what is left out.
  void tell_allowed() const;

 private:
  struct Found {
    std::string path;
    Error error;
    bool is_unsupported;
    bool is_attribute = false;  // its object is copied
  };

  void add(Found found);

  const std::vector<std::string>& skip_;
  const bool skips_unsupported_;
  const std::function<void(const LeftOut&)>& told_;
  std::vector<Found> found_;
  size_t failures_ = 0;
};

}  // namespace codecfs::commands
