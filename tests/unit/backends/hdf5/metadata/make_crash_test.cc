// Crash tests of changes of an HDF5 file's structure, like crash_test.cc for chunks. A scenario creates, moves, removes
// and changes objects and commits in between. For every prefix of the recorded operations, and every state that a kill
// or a power failure may leave, the log is recovered and the whole file is read with libhdf5's own driver. The content
// must be that of a commit: not older than the last one that returned, and not newer than the last one that was tried.

#include <hdf5_hl.h>

#include <functional>
#include <iostream>
#include <set>
#include <unordered_map>

#include "backends/hdf5/library/library_lock.h"
#include "backends/hdf5/wal/write_log.h"
#include "model/json.h"
#include "support/crash_simulator.h"
#include "support/hdf5_change_testing.h"

namespace codecfs {
namespace {

using namespace crash_testing;
using namespace hdf5_testing;

// Describes everything about an object, read with libhdf5's own driver; throws on errors.
class Description {
 public:
  static std::string of(const std::filesystem::path& path) {
    const hdf5::LibraryLock lock;
    const Handle access(H5Pcreate(H5P_FILE_ACCESS));
    H5Pset_fapl_sec2(access.get());
    const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()));
    demand(static_cast<bool>(file), "opening the file");
    Description description;
    demand(H5Lvisit(file.get(), H5_INDEX_NAME, H5_ITER_INC, visit, &description) >= 0, "visiting everything");
    return description.text_;
  }

 private:
  static void demand(bool good, const std::string& what) {
    if (!good) throw std::runtime_error("libhdf5 fails at " + what);
  }
  static herr_t visit(hid_t root, const char* name, const H5L_info_t* info, void* data) {
    try {
      static_cast<Description*>(data)->add(root, name, info->type);
      return 0;
    } catch (const std::exception&) {
      return -1;
    }
  }
  void add(hid_t root, const std::string& name, H5L_type_t type) {
    text_ += name;
    if (type != H5L_TYPE_HARD) {
      text_ += " link\n";
      return;
    }
    const Handle object(H5Oopen(root, name.c_str(), H5P_DEFAULT));
    demand(static_cast<bool>(object), name);
    hsize_t position = 0;
    demand(H5Aiterate2(object.get(), H5_INDEX_NAME, H5_ITER_INC, &position, add_attribute, this) >= 0, name);
    if (H5Iget_type(object.get()) == H5I_DATASET) add_dataset(object, name);
    text_ += '\n';
  }
  static herr_t add_attribute(hid_t holder, const char* name, const H5A_info_t*, void* data) {
    const Handle attribute(H5Aopen(holder, name, H5P_DEFAULT));
    const Handle type(H5Aget_type(attribute.get()));
    std::string& text = static_cast<Description*>(data)->text_;
    text += fmt::format(" {}:", name);
    if (H5Tget_class(type.get()) == H5T_VLEN || H5Tget_class(type.get()) == H5T_COMPOUND) return 0;
    if (H5Tis_variable_str(type.get()) > 0) {
      char* value = nullptr;
      const Handle space(H5Aget_space(attribute.get()));
      text += H5Aread(attribute.get(), type.get(), &value) < 0 || value == nullptr ? "?" : value;
      H5Dvlen_reclaim(type.get(), space.get(), H5P_DEFAULT, &value);
      return 0;
    }
    std::string bytes(H5Aget_storage_size(attribute.get()), '\0');
    text += H5Aread(attribute.get(), type.get(), bytes.data()) < 0 ? "?" : bytes;
    return 0;
  }
  void add_dataset(const Handle& dataset, const std::string& name) {
    const Handle space(H5Dget_space(dataset.get()));
    hsize_t dims[H5S_MAX_RANK] = {};
    const int rank = H5Sget_simple_extent_dims(space.get(), dims, nullptr);
    demand(rank >= 0, name);
    for (int d = 0; d < rank; ++d) {
      text_ += fmt::format(" [{}", dims[d]);
      const int count = H5DSget_num_scales(dataset.get(), static_cast<unsigned>(d));
      if (count > 0)
        demand(H5DSiterate_scales(dataset.get(), static_cast<unsigned>(d), nullptr, add_scale, this) >= 0, name);
      text_ += "]";
    }
    std::vector<double> values(static_cast<size_t>(H5Sget_simple_extent_npoints(space.get())));
    demand(H5Dread(dataset.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0, name);
    for (const double value : values) text_ += fmt::format(" {}", value);
  }
  static herr_t add_scale(hid_t, unsigned, hid_t scale, void* data) {
    char name[64] = {};
    H5Iget_name(scale, name, sizeof name);
    static_cast<Description*>(data)->text_ += fmt::format(" {}", name);
    return 0;
  }

  std::string text_;
};

struct Commit {
  size_t tried_at;     // number of operations before it
  size_t returned_at;  // number of operations when it had succeeded
  std::string state;
};

class Hdf5MakeCrash : public Hdf5Files, public testing::WithParamInterface<bool> {
 protected:
  void run(Recorder& recorder) {
    auto opened = open_hdf5(path(), true, recorder);
    ASSERT_TRUE(opened);
    Source& source = **opened;
    const auto id = [&](const std::string& where) { return object_at(source, where); };
    const auto commit = [&] {
      const size_t before = recorder.operations().size();
      EXPECT_GOOD(source.commit());
      commits_.push_back({before, recorder.operations().size(), ""});
    };
    const auto write = [&](const std::string& where, int32_t value) {
      const std::vector<int32_t> chunk(*variable_at(source, where)->chunk_bytes / 4, value);
      EXPECT_GOOD(source.write_chunk(id(where), 0, std::as_bytes(std::span(chunk))));
    };
    Variable deflated = described("\"<i4\"", {6, 5}, {3, 5}, "-1");
    deflated.filters.resize(1);
    deflated.filters[0].id = 1;
    deflated.filters[0].parameters = {1};

    EXPECT_GOOD(source.make_group(id(""), "g"));
    EXPECT_GOOD(source.make_variable(id(""), "x", with_dimensions(described("\"<i4\"", {5}, {5}), {"x"})));
    EXPECT_GOOD(source.make_variable(id(""), "v", with_dimensions(deflated, {"y", "x"})));
    write("v", 3);
    commit();
    EXPECT_GOOD(source.set_attributes(id("v"), std::vector<Attribute>{{"units", "K"}, {"range", json("[1, 2]")}}, {}));
    EXPECT_GOOD(source.make_link(id("g"), "to_v", "../v"));
    EXPECT_GOOD(source.rename(id(""), "x", id(""), "longitude"));
    commit();
    EXPECT_GOOD(source.rename(id(""), "v", id("g"), "w"));
    commit();  // a new shape first commits the previous changes
    EXPECT_GOOD(source.resize(id("g/w"), std::vector<uint64_t>{2, 5}));
    EXPECT_GOOD(source.set_attributes(id("g/w"), std::vector<Attribute>{{"units", "kelvin"}},
                                      std::vector<std::string>{"range"}));
    commit();
    EXPECT_GOOD(source.resize(id("g/w"), std::vector<uint64_t>{7, 6}));
    write("g/w", 4);
    EXPECT_GOOD(source.make_variable(id(""), "y", with_dimensions(described("\"<i4\"", {6}, {6}), {"y"})));
    EXPECT_GOOD(source.remove(id(""), "longitude"));
    commit();
    for (int i = 0; i < 12; ++i) {
      EXPECT_GOOD(source.make_variable(id("g"), fmt::format("n{}", i), described("\"<i4\"", {4}, {2})));
      write(fmt::format("g/n{}", i), i);
    }
    commit();
    for (int i = 0; i < 12; i += 2) EXPECT_GOOD(source.remove(id("g"), fmt::format("n{}", i)));
    EXPECT_GOOD(source.remove(id("g"), "w"));
    EXPECT_GOOD(source.set_dimensions(id("g/n1"), std::vector<std::string>{"z"}));
    commit();
    EXPECT_GOOD(source.rename(id(""), "g", id(""), "h"));
    const size_t before = recorder.operations().size();
    EXPECT_GOOD(source.finish());
    commits_.push_back({before, recorder.operations().size(), ""});
  }

  // The content after the log is recovered.
  std::string recovered() {
    UnsyncedIo io;
    const auto recovered = hdf5::recover_log(path(), io);
    if (!recovered) return "recovery: " + recovered.error().reason;
    try {
      return Description::of(path());
    } catch (const std::exception& error) {
      return std::string("broken: ") + error.what();
    }
  }

  std::vector<Commit> commits_;
};

TEST_P(Hdf5MakeCrash, EveryPointRecoversToACommit) {
  if (GetParam()) {
    ASSERT_TRUE(create_hdf5(path()));
  } else {
    const hdf5::LibraryLock lock;
    const Handle file = create();
    make_dataset(file, "old", H5T_NATIVE_INT, {3});
  }
  commits_.push_back({0, 0, Description::of(path())});
  Recorder recorder(folder_);
  ASSERT_NO_FATAL_FAILURE(run(recorder));
  if (HasFailure()) return;
  std::set<std::string> states;
  for (Commit& commit : commits_) {
    place(recorder.after_crash(commit.returned_at, {}), folder_);
    commit.state = recovered();
    EXPECT_TRUE(commit.state.find(": ") == std::string::npos || !commit.state.starts_with("broken")) << commit.state;
    EXPECT_TRUE(states.insert(commit.state).second) << "two commits with the same content";
  }

  using Fate = Crash::Fate;
  size_t points = 0;
  size_t bad = 0;
  for (size_t count = 0; count <= recorder.operations().size(); ++count) {
    std::set<std::string> allowed;
    for (const Commit& commit : commits_) {
      if (commit.returned_at <= count) allowed = {commit.state};
      if (commit.returned_at > count && commit.tried_at < count) allowed.insert(commit.state);
    }
    for (unsigned seed = 0; seed < 6; ++seed) {
      const Crash crash{.unsynced = seed == 0   ? Fate::kept
                                    : seed == 1 ? Fate::dropped
                                                : Fate::torn,
                        .names = seed % 2 == 0 ? Fate::kept : Fate::dropped,
                        .seed = seed};
      ++points;
      place(recorder.after_crash(count, crash), folder_);
      const std::string found = recovered();
      if (!allowed.contains(found) && ++bad == 1) ADD_FAILURE() << "after " << count << " operations: " << found;
    }
  }
  EXPECT_EQ(bad, 0U);
  EXPECT_GT(points, 300U) << "fewer would be no proof";
  std::cout << points << " crash points, " << commits_.size() << " commits" << std::endl;
}

// A full disk at any point: calls fail, and what was committed can be read.
TEST_P(Hdf5MakeCrash, EveryOperationMayFail) {
  const auto start = [&] {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
    ASSERT_TRUE(create_hdf5(path()));
  };
  const auto open_identifiers = [] { return H5Fget_obj_count(static_cast<hid_t>(H5F_OBJ_ALL), H5F_OBJ_ALL); };
  const ssize_t before = open_identifiers();
  size_t total = 1;
  size_t runs = 0;
  for (size_t at = 0; at < total; ++at, ++runs) {
    ASSERT_NO_FATAL_FAILURE(start());
    FaultyIo io(at, ENOSPC, GetParam());
    bool lost = false;
    bool good = true;
    {
      auto opened = open_hdf5(path(), true, io);
      if (!opened) continue;
      Source& source = **opened;
      const ObjectId root = source.root().object;
      const Variable coordinate = with_dimensions(described("\"<i4\"", {40}, {40}), {"x"});
      const Variable field = with_dimensions(described("\"<i4\"", {3, 40}, {3, 40}), {"y", "x"});
      for (int round = 0; round < 3; ++round) {
        const auto group = source.make_group(root, fmt::format("g{}", round));
        good &= group.has_value();
        if (group) {
          good &= source.make_variable(group->object, "v", field).has_value();
          good &= source.make_variable(group->object, "x", coordinate).has_value();
          (void)source.set_attributes(group->object, std::vector<Attribute>{{"a", Json(std::string(5000, 'a'))}}, {});
          good &= source.rename(group->object, "v", root, fmt::format("v{}", round)).has_value();
        }
        if (round > 0) (void)source.remove(root, fmt::format("v{}", round - 1));
        lost |= !source.commit();
      }
      lost |= !source.finish();
    }
    EXPECT_EQ(open_identifiers(), before) << "fault " << at;
    total = std::max(total, io.operations());
    const std::string found = recovered();
    ASSERT_FALSE(found.starts_with("broken") || found.starts_with("recovery")) << "fault " << at << ": " << found;
    if (!lost && good) {
      EXPECT_NE(found.find("v2"), std::string::npos) << "fault " << at;
    }
  }
  EXPECT_GT(runs, 20U);
  std::cout << runs << " runs with a fault" << std::endl;
}

INSTANTIATE_TEST_SUITE_P(All, Hdf5MakeCrash, testing::Bool(),
                         [](const auto& parameters) { return parameters.param ? "netcdf" : "oldest_format"; });

}  // namespace
}  // namespace codecfs
