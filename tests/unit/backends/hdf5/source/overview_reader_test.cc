// Datasets that are described without libhdf5: the same answers as by it, also in damaged files. libhdf5 runs in a
// process of its own here, as damage makes it crash.

#include "backends/hdf5/source/overview_reader.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <fstream>
#include <numeric>
#include <random>

#include "backends/hdf5/source/isolated_source.h"
#include "backends/worker/calls.h"
#include "backends/worker/chunk_index.h"
#include "backends/worker/isolated_hdf5.h"
#include "base/log.h"
#include "support/hdf5_testing.h"

namespace codecfs::hdf5_testing {
namespace {

std::string encoded(const VariableSummary& summary) {
  rpc::Encoder out;
  out.put(summary);
  return out.head;
}

class OverviewReaderTest : public Hdf5Files {
 protected:
  void make(bool latest) const {
    const hdf5::LibraryLock lock;
    const Handle file = create(latest);
    std::vector<int32_t> values(400);
    std::iota(values.begin(), values.end(), 7);
    const auto add = [&](const std::string& name, const std::vector<hsize_t>& chunk, const std::vector<hsize_t>& most,
                         bool is_filtered) {
      const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
      if (!chunk.empty()) H5Pset_chunk(properties.get(), 2, chunk.data());
      if (is_filtered) {
        H5Pset_shuffle(properties.get());
        H5Pset_deflate(properties.get(), 1);
      }
      const Handle dataset = make_dataset(file, name, H5T_STD_I32LE, {20, 20}, properties.get(), most);
      write_all(dataset, H5T_NATIVE_INT32, values);
    };
    add("plain", {}, {}, false);
    for (const bool is_filtered : {false, true}) {
      const std::string in = is_filtered ? "filtered/" : "raw/";
      add(in + "fixed", {5, 6}, {}, is_filtered);
      add(in + "single", {20, 20}, {}, is_filtered);
      add(in + "growing", {5, 6}, {H5S_UNLIMITED, 20}, is_filtered);
      add(in + "growing_second", {5, 6}, {25, H5S_UNLIMITED}, is_filtered);
      add(in + "tree", {3, 3}, {H5S_UNLIMITED, H5S_UNLIMITED}, is_filtered);
    }
  }
  static std::vector<Entry> variables(Source& source, ObjectId group) {
    std::vector<Entry> found;
    const auto members = source.list(group);
    if (!members) return found;
    for (const Entry& entry : *members) {
      if (entry.kind == EntryKind::variable) found.push_back(entry);
      if (entry.kind != EntryKind::group) continue;
      for (Entry& inner : variables(source, entry.object)) found.push_back(std::move(inner));
    }
    return found;
  }
};

TEST_F(OverviewReaderTest, DescribesEachKindOfIndex) {
  for (const bool latest : {false, true}) {
    make(latest);
    hdf5::IsolatedState state;
    state.shared = std::make_shared<hdf5::SharedState>();
    state.journal = UniqueFd(::memfd_create("journal", MFD_CLOEXEC));
    const auto source = hdf5::open_isolated(path(), false, std::move(state));
    ASSERT_TRUE(source) << source.error().reason;
    const std::vector<Entry> found = variables(**source, 0);
    EXPECT_EQ(found.size(), 11);
    for (const Entry& entry : found) {
      const auto quick = (*source)->quick_summary(entry.object);
      ASSERT_TRUE(quick) << entry.name << latest;
      EXPECT_EQ(encoded(*quick), encoded(summarize(**source, entry.object))) << entry.name << latest;
      EXPECT_GT(quick->stored_bytes, 0);
    }
    EXPECT_FALSE((*source)->quick_summary(0));  // the root
    EXPECT_FALSE((*source)->quick_summary(1000));
  }
}

TEST_F(OverviewReaderTest, LeavesFilesThatAreWrittenToLibhdf5) {
  make(true);
  hdf5::IsolatedState state;
  state.shared = std::make_shared<hdf5::SharedState>();
  state.journal = UniqueFd(::memfd_create("journal", MFD_CLOEXEC));
  const auto source = hdf5::open_isolated(path(), true, std::move(state));
  ASSERT_TRUE(source) << source.error().reason;
  EXPECT_FALSE((*source)->quick_summary(object_at(**source, "plain")));
}

TEST_F(OverviewReaderTest, DamagedFilesAreDescribedAsByLibhdf5) {
  log::set_level(log::Level::error);
  unsigned same = 0;
  const char* const wanted = std::getenv("CODECFS_ROUNDS");
  const int rounds = wanted != nullptr ? std::atoi(wanted) : 40;
  std::mt19937 random(static_cast<unsigned>(rounds));
  for (const bool latest : {false, true}) {
    make(latest);
    std::ifstream in(path(), std::ios::binary);
    const std::string whole{std::istreambuf_iterator<char>(in), {}};
    for (int round = 0; round < rounds; ++round) {
      std::string damaged = whole;
      for (int i = 0; i < 1 << (round % 6); ++i) damaged[random() % damaged.size()] = static_cast<char>(random());
      if (round % 10 == 9) damaged.resize(random() % damaged.size());
      std::ofstream(path("d.h5"), std::ios::binary) << damaged;
      constexpr uint64_t kBytes = uint64_t{1} << 20;
      const auto source = open_hdf5_in_worker(path("d.h5"), false, std::make_shared<worker::ChunkRanges>(kBytes));
      if (!source) continue;
      for (const Entry& entry : variables(**source, 0)) {
        const VariableSummary found = (*source)->summaries({&entry.object, 1}).front();
        const VariableSummary known = summarize(**source, entry.object);
        if (known.error) continue;
        EXPECT_TRUE(encoded(found) == encoded(known))
            << entry.name << " " << latest << " " << round << ": " << found.stored_chunks << " chunks of "
            << found.stored_bytes << " bytes, by libhdf5 " << known.stored_chunks << " of " << known.stored_bytes
            << (found.error ? found.error->reason : "");
        ++same;
      }
    }
  }
  EXPECT_GT(same, 200);
}

}  // namespace
}  // namespace codecfs::hdf5_testing
