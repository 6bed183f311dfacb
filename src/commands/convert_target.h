#pragma once
// Where a conversion puts its files: a directory of this machine, or a dataset through the encoded view of one
// (convert_objects.h: objects).

#include <memory>
#include <string>

#include "base/buffer.h"
#include "base/result.h"
#include "commands/tree_files.h"

namespace codecfs::commands {

/// Thread-safe, except make_directory() and finish().
class ConvertTarget {
 public:
  /// A directory of the target. Valid as long as the target exists.
  struct Directory {
    std::string path;      // of a directory of this machine
    TreeFiles::Ino ino{};  // of a dataset
  };

  virtual ~ConvertTarget() = default;

  [[nodiscard]] virtual Directory root() const = 0;
  /// Not an error if it exists.
  virtual Result<Directory> make_directory(const Directory& parent, const std::string& name) = 0;
  /// Removes a directory that make_directory() made in `parent`, with what is in it.
  virtual Result<> remove_directory(const Directory& parent, const Directory& directory, const std::string& name) = 0;
  /// Whether a file exists with its whole content, `size` bytes.
  virtual Result<bool> has(const Directory& directory, const std::string& name, uint64_t size) = 0;
  /// Creates or replaces a file. has() tells apart one that was cut short by an interruption.
  virtual Result<> write(const Directory& directory, const std::string& name, Bytes content) = 0;
  virtual Result<> make_link(const Directory& directory, const std::string& name, const std::string& target) = 0;
  /// Makes a link of which there is a note (Source::link_notes()). EOPNOTSUPP; ENOENT if it needs its target.
  virtual Result<> restore_link(const Directory& /*directory*/, const std::string& /*name*/,
                                const std::string& /*note*/) {
    return fail(EOPNOTSUPP, "only HDF5 has links");
  }
  /// Whether the target makes consolidated metadata itself.
  [[nodiscard]] virtual bool consolidates() const = 0;
  /// Names are file names as a mount shows them, and not keys of Zarr.
  [[nodiscard]] virtual bool takes_file_names() const { return false; }
  /// HDF5 has names that Zarr has not, and arrays whose attribute _FillValue is not their fill value, if they are made
  /// with their attributes.
  [[nodiscard]] virtual bool is_hdf5() const { return false; }
  /// How many files are best written at a time, more than there are cores if each waits for a network; 0: one a core.
  [[nodiscard]] virtual size_t files_at_once() const { return 0; }
  /// Whether finish() makes sense before everything is written: --resume finds it then.
  [[nodiscard]] virtual bool keeps_parts() const { return true; }
  /// Makes everything durable; the last call.
  virtual Result<> finish() = 0;
};

/// A directory that exists. `trusts_sizes`: a file in it that has the right size has the right content; false after a
/// power cut may have come between.
Result<std::unique_ptr<ConvertTarget>> make_directory_target(const std::string& path, bool trusts_sizes);
/// A new zip archive at `path`, with all files below the folder `top` (empty: at its top) and entries for folders, as
/// netCDF-C reads it. It is written by finish().
Result<std::unique_ptr<ConvertTarget>> make_zip_target(const std::string& path, const std::string& top);
/// Takes everything and keeps nothing.
std::unique_ptr<ConvertTarget> make_checking_target();
/// A dataset; `tree` must outlive it.
std::unique_ptr<ConvertTarget> make_tree_target(TreeFiles& tree);

}  // namespace codecfs::commands
