#pragma once
// A mounted dataset: what all backends implement. Its parts are small interfaces, for code that needs only one:
//
//   TreeReader    groups, variables and their metadata      TreeEditor    changes of them
//   ChunkReader   decoded and stored chunks                 ChunkWriter   changes of them
//   Lifecycle     the right to write, commits, the end
//
// All functions are thread-safe. Arguments and results are plain data without handles of a library, so that a backend
// can run in another process.

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/api/chunk_reader.h"
#include "backends/api/chunk_writer.h"
#include "backends/api/lifecycle.h"
#include "backends/api/object.h"
#include "backends/api/tree_editor.h"
#include "backends/api/tree_reader.h"
#include "backends/api/variable_summary.h"
#include "base/buffer.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "model/variable.h"
#include "remote/object_client.h"

namespace codecfs {

class Source : public TreeReader, public TreeEditor, public ChunkReader, public ChunkWriter, public Lifecycle {
 public:
  /// "HDF5", "netCDF-4", "Zarr v3": for messages and stats.
  [[nodiscard]] virtual std::string format() const = 0;
  /// Whether it is a store of Zarr v3, which is shown as one by default.
  [[nodiscard]] virtual bool is_zarr3() const { return false; }
  /// Times, owner and mode of the source file (for a directory store: of its directory).
  [[nodiscard]] virtual const struct stat& status() const = 0;
  /// Statistics of the filesystem that contains the source. Zeros if unknown.
  [[nodiscard]] virtual struct statvfs filesystem() const { return {}; }
  /// How many chunks are best read or written at a time: more than there are cores if each waits for a network. 0: one
  /// a core.
  [[nodiscard]] virtual size_t reads_at_once() const { return 0; }
  /// Whether a change of one object may change the metadata of other objects (names and lengths of dimensions).
  [[nodiscard]] virtual bool shares_metadata() const { return false; }
  /// Whether new filter pipelines must be decodable by numcodecs (Zarr) in what stores this object.
  virtual bool chains_for_numcodecs_in(ObjectId) { return false; }

  /// Another source of the same file, for reading by another thread, in which objects have the same numbers as here:
  /// those that this one has told so far. It may outlive this one. ENOTSUP if there is no such source. Other errors of
  /// opening the file.
  virtual Result<std::unique_ptr<Source>> open_twin() { return fail(ENOTSUP, "it is opened by its path"); }
  /// Of variables, in the same order. Sources in another process answer them together; callers should ask for some
  /// hundred at a time.
  virtual std::vector<VariableSummary> summaries(std::span<const ObjectId> variables);

  /// TreeEditor::set_dimensions() and set_attributes() of a variable as one change. Errors of both; nothing has changed
  /// then. By default the names are taken back if the attributes cannot be set.
  virtual Result<> set_metadata(ObjectId variable, std::span<const std::string> dimensions,
                                std::span<const Attribute> set, std::span<const std::string> remove);

  /// Those of the source, unless the format stores others.
  [[nodiscard]] Result<struct stat> status_of(ObjectId) const override { return status(); }
  Result<> variable_writable(ObjectId) override { return writable(); }
};

/// Opens a dataset (file or directory) or a folder of datasets; the content determines the format. `may_write`: open it
/// for writing if possible (Source::writable() tells). The errors for known but unsupported formats (netCDF-3, N5)
/// name the format.
Result<std::unique_ptr<Source>> open_source(const std::string& path, bool may_write = false);

/// The same source, which can rest() if it is a dataset of this machine (no URL, no folder of datasets). `path`,
/// `may_write`: as it was opened.
std::unique_ptr<Source> make_resting(std::unique_ptr<Source> source, const std::string& path, bool may_write);

/// Whether the name of a source is a URL (s3://, https://, http://), which open_source() reads from there.
bool is_source_url(std::string_view path);
/// The name of a source without what may be secret in a URL, for messages and the mount table.
std::string shown_source(const std::string& path);
/// Counters of all requests that this process has sent for sources, in lines of "name value"; empty if none was opened
/// by a URL.
std::string object_counters();
/// For the URLs that are opened from now on. Not thread-safe: to be called before the first of them is opened.
void set_object_options(const remote::ObjectOptions& options);

/// Starts the processes from which workers are forked. Should be called before any thread is created; otherwise they
/// are started when they are first needed.
void prepare_sources();

/// How open_source() opens HDF5 files.
struct Hdf5Options {
  bool isolated = true;                       // in a process of its own (backends/worker)
  uint64_t index_bytes = uint64_t{32} << 20;  // for what is known of the places of chunks, of all isolated files
  bool latest = false;  // what is made and written has the newest forms of libhdf5, which older ones do not read
};
/// For the files that are opened or created from now on. Not thread-safe: to be called before the first of them is.
void set_hdf5_options(const Hdf5Options& options);

/// How the processes of isolated HDF5 files are protected against the files that they read.
struct SourceProtections {
  std::string text;       // a sentence; empty if there were no such processes so far
  bool is_whole = false;  // else a warning was logged
};
SourceProtections protections_of_sources();

/// Whether open_source() would open this file or directory as a dataset, and the kind of its root. Reads only what is
/// needed to recognise the format. `fd` may be an O_PATH descriptor for a directory; `status` is its stat.
std::optional<EntryKind> dataset_kind(int fd, const struct stat& status);

struct SourceCheck {
  bool has_pending = false;
  std::string text;  // the same as a sentence, with the path
};
/// Whether a log beside the source holds committed changes of a mount that was killed; recover_source() writes them
/// into the source. EUCLEAN and others if the log does not belong to this state of the source, EBUSY. recover_source():
/// EOPNOTSUPP for a URL.
Result<SourceCheck> check_source(const std::string& path);
Result<std::string> recover_source(const std::string& path);

/// Creates an empty source, "hdf5", "zarr", "zarr3" (Zarr v3), "zip" (Zarr in a zip archive) or "nczarr" (Zarr v2 in
/// netCDF-C's form). `as_netcdf`: an HDF5 file is netCDF-4, and its attributes follow netCDF's rules. EEXIST if the
/// path exists, EINVAL for another format.
Result<> create_source(const std::string& path, std::string_view format, bool as_netcdf = true);
/// The same at the URL of an object store, "zarr", "zarr3" or "nczarr". False if there is a store already; EEXIST if
/// there are other objects; EROFS.
Result<bool> create_remote_source(const std::string& url, std::string_view format);

/// "libhdf5 1.10.8": the libraries of the backends with their versions, for --version.
std::string format_versions();

}  // namespace codecfs
