#pragma once
// Opens datasets and folders of them, makes new ones, and mends and compacts those that are not open: what formats.h
// has of each format. A path is also the URL of an object store or a web server, where that is not excluded.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/api/source.h"
#include "backends/api/source_check.h"
#include "base/result.h"
#include "remote/object_client.h"

namespace codecfs {

struct Hdf5Options {
  bool isolated = true;                       // in a process of its own (backends/worker)
  uint64_t index_bytes = uint64_t{32} << 20;  // for what is known of the places of chunks, of all isolated files
  bool latest = false;  // what is made and written has the newest forms of libhdf5, which older ones do not read
};

/// How sources are opened and made.
struct SourceOptions {
  Hdf5Options hdf5;
  remote::ObjectOptions objects;  // of URLs
};

/// Where a new store at a URL is written.
struct ObjectPlace {
  std::shared_ptr<remote::ObjectClient> client;
  std::string key;
};

/// Opens and makes sources with the same options. Copies share the options, a table of the places of chunks, and
/// counters. What is opened may outlive it. Thread-safe.
class SourceOpener {
 public:
  explicit SourceOpener(SourceOptions options = {});

  /// Opens a dataset (file or directory) or a folder of datasets; the content determines the format. `may_write`: open
  /// it for writing if possible (Source::writable() tells). The errors for known but unsupported formats (netCDF-3, N5)
  /// name the format.
  [[nodiscard]] Result<std::unique_ptr<Source>> open(const std::string& path, bool may_write = false) const;
  /// Returns `source`, made able to close_idle() if it is a dataset of this machine (no URL, no folder of datasets).
  /// `path`, `may_write`: as it was opened.
  [[nodiscard]] std::unique_ptr<Source> make_resting(std::unique_ptr<Source> source, const std::string& path,
                                                     bool may_write) const;

  /// Creates an empty source, "hdf5", "zarr", "zarr3" (Zarr v3), "zip" (Zarr in a zip archive) or "nczarr" (Zarr v2 in
  /// netCDF-C's form). `as_netcdf`: an HDF5 file is netCDF-4, and its attributes follow netCDF's rules. EEXIST if the
  /// path exists, EINVAL for another format.
  [[nodiscard]] Result<> create(const std::string& path, std::string_view format, bool as_netcdf = true) const;
  /// As create(), at the URL of an object store: "zarr", "zarr3" or "nczarr". False if there is a store already; EEXIST
  /// if there are other objects; EROFS.
  [[nodiscard]] Result<bool> create_remote(const std::string& url, std::string_view format) const;
  /// EROFS for web servers, and without credentials; errors of ObjectClient::make().
  [[nodiscard]] Result<ObjectPlace> place_to_write(const std::string& url) const;
  /// Copies the object of a URL, of one state, to `to`, which is created or replaced, and syncs the copy. ENOENT,
  /// ESTALE, ECANCELED if `cancelled` returns true, ENOSPC; the errors of ObjectClient.
  [[nodiscard]] Result<> copy_object(const std::string& url, const std::string& to,
                                     const std::function<bool()>& cancelled) const;

  /// Counters of all requests that were sent for its sources, in lines of "name value"; empty if none was opened by a
  /// URL.
  [[nodiscard]] std::string counters() const;

  struct State;  // opener_state.h
  [[nodiscard]] const State& state() const { return *state_; }

 private:
  std::shared_ptr<const State> state_;
};

/// The formats in which SourceOpener::create() makes sources.
std::vector<std::string_view> formats_of_new_sources();

/// Whether the name of a source is a URL (s3://, gs://, az://, https://, ...).
bool is_source_url(std::string_view path);
/// The name of a source without what may be secret in a URL, for messages and the mount table.
std::string shown_source(const std::string& path);

/// Whether a log beside the source holds committed changes of a mount that was killed; recover_source() writes them
/// into the source. EUCLEAN and others if the log does not belong to this state of the source, EBUSY. recover_source():
/// EOPNOTSUPP for a URL.
Result<SourceCheck> check_source(const std::string& path);
Result<std::string> recover_source(const std::string& path);
/// Removes the unused space of a source that no program has open: writes a new file, syncs it and renames it over the
/// old one. Returns a summary of what was saved. EBUSY; EOPNOTSUPP for content that cannot be copied exactly; the
/// source is then unchanged. ECANCELED: `cancelled` returned true, which it is called for with HDF5 files.
Result<std::string> compact_source(const std::string& path, const std::function<bool()>& cancelled = {});

}  // namespace codecfs
