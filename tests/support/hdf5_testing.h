#pragma once
// Common code of the tests of the HDF5 backend: files created with plain libhdf5, and walks through a Source.

#include <gtest/gtest.h>
#include <hdf5.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/api/source.h"
#include "backends/hdf5/hdf5_source.h"
#include "backends/hdf5/library/handle.h"
#include "backends/hdf5/library/library_lock.h"

namespace codecfs::hdf5_testing {

using hdf5::Handle;

/// A separate folder for each test.
class Hdf5Files : public testing::Test {
 protected:
  Hdf5Files() {
    std::string pattern = (std::filesystem::temp_directory_path() / "codecfs_hdf5_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~Hdf5Files() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name = "t.h5") const { return (folder_ / name).string(); }

  /// Creates a file; `latest` uses the newest format.
  /// `has_times`: in the root group's header, which only the latest format has.
  Handle create(bool latest = false, hsize_t user_block = 0, const std::string& name = "t.h5",
                bool has_times = true) const {
    const Handle access(H5Pcreate(H5P_FILE_ACCESS));
    const Handle creation(H5Pcreate(H5P_FILE_CREATE));
    // Otherwise libhdf5 2.0 uses the format of 1.8.
    H5Pset_libver_bounds(access.get(), latest ? H5F_LIBVER_LATEST : H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST);
    H5Pset_userblock(creation.get(), user_block);
    if (!has_times) H5Pset_obj_track_times(creation.get(), false);
    Handle file(H5Fcreate(path(name).c_str(), H5F_ACC_TRUNC, creation.get(), access.get()));
    EXPECT_TRUE(file);
    return file;
  }

  std::filesystem::path folder_;
};

inline Handle make_dataset(const Handle& file, const std::string& name, hid_t type, const std::vector<hsize_t>& dims,
                           hid_t properties = H5P_DEFAULT, const std::vector<hsize_t>& most = {}) {
  const Handle space(dims.empty() ? H5Screate(H5S_SCALAR)
                                  : H5Screate_simple(static_cast<int>(dims.size()), dims.data(),
                                                     most.empty() ? nullptr : most.data()));
  const Handle links(H5Pcreate(H5P_LINK_CREATE));
  H5Pset_create_intermediate_group(links.get(), 1);
  Handle dataset(H5Dcreate2(file.get(), name.c_str(), type, space.get(), links.get(), properties, H5P_DEFAULT));
  EXPECT_TRUE(dataset) << name;
  return dataset;
}

template <class T>
void write_all(const Handle& dataset, hid_t type, const std::vector<T>& values) {
  ASSERT_GE(H5Dwrite(dataset.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
}

/// Whether this libhdf5 permits mandatory filters on variable-length strings: 1.10 does not, 2.2 does.
inline bool text_takes_checksums() {
  const hdf5::LibraryLock lock;
  H5E_auto2_t told = nullptr;
  void* data = nullptr;
  H5Eget_auto2(H5E_DEFAULT, &told, &data);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  const Handle access(H5Pcreate(H5P_FILE_ACCESS));
  H5Pset_fapl_core(access.get(), 4096, 0);
  const Handle file(H5Fcreate("checksums.h5", H5F_ACC_TRUNC, H5P_DEFAULT, access.get()));
  const Handle text(H5Tcopy(H5T_C_S1));
  H5Tset_size(text.get(), H5T_VARIABLE);
  const hsize_t one = 1;
  const Handle space(H5Screate_simple(1, &one, nullptr));
  const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_chunk(properties.get(), 1, &one);
  H5Pset_fletcher32(properties.get());
  const Handle dataset(
      H5Dcreate2(file.get(), "v", text.get(), space.get(), H5P_DEFAULT, properties.get(), H5P_DEFAULT));
  H5Eset_auto2(H5E_DEFAULT, told, data);
  return static_cast<bool>(dataset);
}

inline std::unique_ptr<Source> open_source_of(const std::string& path) {
  auto source = open_hdf5(path);
  EXPECT_TRUE(source) << (source ? "" : source.error().reason);
  return source ? std::move(*source) : nullptr;
}

/// The entry at a path of file names ("ocean/salinity").
inline Result<Entry> entry_at(Source& source, const std::string& where) {
  Entry entry = source.root();
  for (const auto& part : std::filesystem::path(where)) {
    CODECFS_ASSIGN(entry, source.find(entry.object, part.string()));
  }
  return entry;
}

inline ObjectId object_at(Source& source, const std::string& where) {
  auto entry = entry_at(source, where);
  EXPECT_TRUE(entry) << where << ": " << (entry ? "" : entry.error().reason);
  return entry ? entry->object : ~ObjectId{0};
}

inline VariablePtr variable_at(Source& source, const std::string& where) {
  auto variable = source.variable(object_at(source, where));
  EXPECT_TRUE(variable) << where << ": " << (variable ? "" : variable.error().reason);
  return variable ? *variable : nullptr;
}

/// All groups and variables below a group, by path.
inline void walk(Source& source, const Entry& group, const std::string& where,
                 const std::function<void(const std::string&, const Entry&)>& visit) {
  auto entries = source.list(group.object);
  ASSERT_TRUE(entries) << where << ": " << entries.error().reason;
  for (const Entry& entry : *entries) {
    const std::string path = where + "/" + entry.name;
    visit(path, entry);
    if (entry.kind == EntryKind::group) walk(source, entry, path, visit);
  }
}

template <class T>
std::vector<T> elements_of(const Buffer& buffer) {
  std::vector<T> values(buffer.size() / sizeof(T));
  std::memcpy(values.data(), buffer.data(), values.size() * sizeof(T));
  return values;
}

}  // namespace codecfs::hdf5_testing
