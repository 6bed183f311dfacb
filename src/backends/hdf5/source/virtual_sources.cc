#include "backends/hdf5/source/virtual_sources.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <set>
#include <utility>

#include "backends/api/newer_format.h"
#include "backends/hdf5/library/handle.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/library/library_lock.h"
#include "backends/hdf5/overview/newer_forms.h"

namespace codecfs::hdf5 {
namespace {

constexpr size_t kMaxMissing = 1000;

/// A text of one of two functions of libhdf5.
Result<std::string> mapped_text(ssize_t (*get)(hid_t, size_t, char*, size_t), hid_t properties, size_t mapping) {
  const ssize_t size = get(properties, mapping, nullptr, 0);
  if (size < 0) return fail_library(EIO, "the sources of a virtual dataset");
  std::string text(static_cast<size_t>(size) + 1, '\0');
  if (get(properties, mapping, text.data(), text.size()) < 0)
    return fail_library(EIO, "the sources of a virtual dataset");
  text.resize(static_cast<size_t>(size));
  return text;
}

/// The paths at which libhdf5 searches a file of this name, in its order.
std::vector<std::string> candidates(const SourceFile& file, const std::string& name) {
  const std::string last = name.substr(name.rfind('/') + 1);
  if (name.starts_with('/')) return {name, file.directory + "/" + last};
  return {file.directory + "/" + name, file.working_directory + "/" + name};
}

Handle open_source_file(const SourceFile& file, const std::string& name) {
  Handle opened;
  for (const std::string& path : candidates(file, name)) {
    struct stat status{};
    if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    opened = Handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
    if (opened) break;
  }
  return opened;
}

/// Why libhdf5 cannot read a dataset of another file, if a newer HDF5 wrote it.
std::optional<std::string> newer_form_in(hid_t file, const std::string& dataset) {
  ObjectInfo info;
  if (!object_info_by_name(file, dataset.c_str(), info)) return std::nullopt;
  std::string path(static_cast<size_t>(std::max<ssize_t>(H5Fget_name(file, nullptr, 0), 0)) + 1, '\0');
  if (H5Fget_name(file, path.data(), path.size()) < 0) return std::nullopt;
  const UniqueFd bytes(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!bytes) return std::nullopt;
  const auto read = [&](uint64_t offset, MutableBytes to) -> Result<size_t> {
    const ssize_t count = ::pread(bytes.get(), to.data(), to.size(), static_cast<off_t>(offset));
    return count < 0 ? Result<size_t>(fail_errno(errno, "{}", path)) : Result<size_t>(static_cast<size_t>(count));
  };
  return find_newer_form(read, info.address);
}

}  // namespace

Result<std::vector<std::string>> missing_virtual_sources(const SourceFile& file, hid_t dataset) {
  const Handle properties(H5Dget_create_plist(dataset));
  size_t count = 0;
  if (!properties || H5Pget_virtual_count(properties.get(), &count) < 0)
    return fail_library(EIO, "the sources of a virtual dataset");
  std::vector<std::string> missing;
  std::set<std::pair<std::string, std::string>> seen;
  std::pair<std::string, Handle> opened;  // by name; mostly, many sources in a row are in one file
  for (size_t i = 0; i < count && missing.size() < kMaxMissing; ++i) {
    CODECFS_ASSIGN(const std::string name, mapped_text(H5Pget_virtual_filename, properties.get(), i));
    CODECFS_ASSIGN(const std::string source, mapped_text(H5Pget_virtual_dsetname, properties.get(), i));
    if (name.contains("%b") || source.contains("%b") || !seen.emplace(name, source).second) continue;
    const bool is_here = name == ".";
    if (!is_here && opened.first != name) opened = {name, open_source_file(file, name)};
    if (!is_here && !opened.second) {
      if (seen.emplace(name, "").second) missing.push_back(name);
      continue;
    }
    const Handle found(H5Dopen2(is_here ? file.file.get() : opened.second.get(), source.c_str(), H5P_DEFAULT));
    if (found) continue;
    const std::string shown = is_here ? source : fmt::format("{} in {}", source, name);
    if (!is_here)
      if (const auto newer = newer_form_in(opened.second.get(), source))
        return fail(kNewerFormat, "its source {} is {}", shown, *newer);
    missing.push_back(shown);
  }
  return missing;
}

}  // namespace codecfs::hdf5
