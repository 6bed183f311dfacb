#pragma once
// Writes and reads HDF5 files for the crash tests: creates them with plain libhdf5, changes them through a Source and a
// model in parallel, and reads them with libhdf5's own driver afterwards.

#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/hdf5/source/isolated_source.h"
#include "support/crash_simulator.h"
#include "support/hdf5_testing.h"

namespace codecfs::hdf5_crash_testing {

using hdf5_testing::Handle;
using hdf5_testing::make_dataset;
using hdf5_testing::object_at;
using hdf5_testing::variable_at;

inline constexpr int32_t kFill = -7;

/// A two-dimensional dataset of int32.
struct Layout {
  enum class Start { absent, flat, noise };
  hsize_t rows, columns;
  hsize_t chunk_rows = 0, chunk_columns = 0;  // 0: contiguous
  bool deflate = false;                       // with shuffle
  bool checked = false;                       // fletcher32
  // number of unlimited dimensions, which determines the index of the newest format
  int unlimited = 0;
  Start start = Start::absent;
  bool compact = false;
};

using Numbers = std::vector<int32_t>;

inline Numbers noise(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Numbers numbers(count);
  for (int32_t& number : numbers) number = static_cast<int32_t>(random());
  return numbers;
}

inline void add(const Handle& file, const std::string& name, const Layout& layout) {
  const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
  ASSERT_GE(H5Pset_fill_value(properties.get(), H5T_NATIVE_INT32, &kFill), 0);
  if (layout.compact) H5Pset_layout(properties.get(), H5D_COMPACT);
  if (layout.chunk_rows != 0) {
    const hsize_t chunks[] = {layout.chunk_rows, layout.chunk_columns};
    ASSERT_GE(H5Pset_chunk(properties.get(), 2, chunks), 0);
  }
  if (layout.deflate) {
    H5Pset_shuffle(properties.get());
    H5Pset_deflate(properties.get(), 1);
  }
  if (layout.checked) H5Pset_fletcher32(properties.get());
  const std::vector<hsize_t> most = {layout.unlimited > 0 ? H5S_UNLIMITED : layout.rows,
                                     layout.unlimited > 1 ? H5S_UNLIMITED : layout.columns};
  const Handle dataset = make_dataset(file, name, H5T_STD_I32LE, {layout.rows, layout.columns}, properties.get(), most);
  const size_t count = layout.rows * layout.columns;
  if (layout.start == Layout::Start::flat) hdf5_testing::write_all(dataset, H5T_NATIVE_INT32, Numbers(count, 5));
  if (layout.start == Layout::Start::noise) hdf5_testing::write_all(dataset, H5T_NATIVE_INT32, noise(count, 1));
}

inline Handle text_type() {
  Handle type(H5Tcopy(H5T_C_S1));
  H5Tset_size(type.get(), H5T_VARIABLE);
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  return type;
}

inline void add_text(const Handle& file, const std::string& name, const std::vector<const char*>& texts) {
  const Handle type = text_type();
  hdf5_testing::write_all(make_dataset(file, name, type.get(), {texts.size()}), type.get(), texts);
}

/// The ids of a dataset's filters.
inline std::string filters_of(const Handle& dataset) {
  const Handle properties(H5Dget_create_plist(dataset.get()));
  std::string ids;
  for (unsigned i = 0; i < static_cast<unsigned>(std::max(H5Pget_nfilters(properties.get()), 0)); ++i) {
    size_t none = 0;
    ids += fmt::format("{} ", H5Pget_filter2(properties.get(), i, nullptr, &none, nullptr, 0, nullptr, nullptr));
  }
  return ids;
}

inline std::string filters_key(const std::string& name) { return name + " is filtered by"; }

/// The bytes of each dataset in the root, by name; for strings, each followed by a zero byte. Also the filters.
using State = std::map<std::string, std::string>;

/// Reads the file with plain libhdf5; throws on errors.
inline State read_plainly(const std::filesystem::path& path) {
  const auto demand = [](bool good, const std::string& what) {
    if (!good) throw std::runtime_error("libhdf5 fails at " + what);
  };
  const Handle access(H5Pcreate(H5P_FILE_ACCESS));
  demand(H5Pset_fapl_sec2(access.get()) >= 0, "its own driver");
  const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()));
  demand(static_cast<bool>(file), "opening the file");
  H5G_info_t info{};
  demand(H5Gget_info(file.get(), &info) >= 0, "the root");
  State state;
  for (hsize_t i = 0; i < info.nlinks; ++i) {
    char name[64] = {};
    demand(H5Lget_name_by_idx(file.get(), ".", H5_INDEX_NAME, H5_ITER_INC, i, name, sizeof name, H5P_DEFAULT) > 0,
           "a name");
    const Handle dataset(H5Dopen2(file.get(), name, H5P_DEFAULT));
    const Handle space(H5Dget_space(dataset.get()));
    const Handle type(H5Dget_type(dataset.get()));
    demand(dataset && space && type, name);
    const auto count = static_cast<size_t>(H5Sget_simple_extent_npoints(space.get()));
    state[filters_key(name)] = filters_of(dataset);
    std::string& bytes = state[name];
    if (H5Tis_variable_str(type.get()) > 0) {
      std::vector<char*> texts(count);
      const Handle memory = text_type();
      demand(H5Dread(dataset.get(), memory.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, texts.data()) >= 0, name);
      for (const char* text : texts) bytes += std::string(text == nullptr ? "" : text) + '\0';
      H5Dvlen_reclaim(memory.get(), space.get(), H5P_DEFAULT, texts.data());
    } else {
      bytes.resize(count * sizeof(int32_t));
      demand(H5Dread(dataset.get(), H5T_STD_I32LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()) >= 0, name);
    }
  }
  return state;
}

/// A state that a commit has tried to make durable.
struct Commit {
  State state;
  size_t tried_at;     // number of operations before it
  size_t returned_at;  // number of operations when it had succeeded
  // Number of operations after which a kill of the process, without a power failure, must leave this state or a later
  // one: when a change had returned whose Source must survive its process.
  size_t sealed_at = SIZE_MAX;
};

/// Writes through a Source, and records the expected content in a model.
class Work {
 public:
  /// Whether each change is to survive the process: through an IsolatedSource, or only claimed, as a mutant.
  enum class Sealing { none, each_change, only_claimed };
  /// `latest`: Hdf5Options::latest.
  Work(std::filesystem::path path, crash_testing::Recorder& io, Sealing sealing = Sealing::none, bool latest = false)
      : path_(std::move(path)), io_(io), sealing_(sealing), latest_(latest), model_(read_plainly(path_)) {
    commits_.push_back({model_, 0, 0});
    open();
  }

  /// As after a kill of the mount and a new mount.
  void reopen() {
    source_.reset();
    if (sealing_ == Sealing::none) model_ = commits_.back().state;
    open();
  }

  [[nodiscard]] uint64_t chunks(const std::string& name) { return variable_at(*source_, name)->grid.count(); }

  void write(const std::string& name, uint64_t number, const Numbers& chunk) {
    const size_t before = io_.operations().size();
    step(name,
         [&] { return source_->write_chunk(object_at(*source_, name), number, std::as_bytes(std::span(chunk))); });
    note(name, number, chunk);
    note_sealed(before);
  }
  void write_noise(const std::string& name, uint64_t number) { write(name, number, noise(elements(name), ++seed_)); }
  void write_flat(const std::string& name, uint64_t number) {
    write(name, number, Numbers(elements(name), static_cast<int32_t>(++seed_)));
  }
  /// Changes some elements of a chunk as the mount does: reads, changes and writes the chunk.
  void change(const std::string& name, uint64_t number, size_t from, size_t count) {
    Numbers chunk(elements(name), kFill);
    if (const auto old = source_->read_chunk(object_at(*source_, name), number)) {
      chunk = hdf5_testing::elements_of<int32_t>(*old);
    } else {
      EXPECT_EQ(old.error().code, ENOENT) << old.error().reason;
    }
    std::ranges::copy(noise(count, ++seed_), chunk.begin() + static_cast<ptrdiff_t>(from));
    write(name, number, chunk);
  }
  void remove(const std::string& name, uint64_t number) {
    const size_t before = io_.operations().size();
    step(name, [&] { return source_->remove_chunk(object_at(*source_, name), number); });
    note(name, number, Numbers(elements(name), kFill));
    note_sealed(before);
  }
  /// Writes the only chunk of a dataset of strings in numcodecs' vlen-utf8 form, numbers little-endian.
  void write_texts(const std::string& name, const std::vector<std::string>& texts) {
    std::string chunk;
    std::string model;
    const auto put = [&](size_t number) {
      for (int shift = 0; shift < 32; shift += 8) chunk += static_cast<char>(number >> shift);
    };
    put(texts.size());
    for (const std::string& text : texts) {
      put(text.size());
      chunk += text;
      model += text + '\0';
    }
    const size_t before = io_.operations().size();
    step(name, [&] { return source_->write_chunk(object_at(*source_, name), 0, std::as_bytes(std::span(chunk))); });
    model_.at(name) = std::move(model);
    note_sealed(before);
  }
  /// Re-encodes a dataset with filters of these ids and parameters. Earlier writes are committed first.
  void recode(const std::string& name, const std::vector<std::pair<uint32_t, std::vector<uint32_t>>>& filters) {
    const size_t before = commits_.size();
    commits_.push_back({model_, io_.operations().size(), SIZE_MAX});
    std::vector<FilterStage> chain;
    std::string& ids = model_.at(filters_key(name));
    ids.clear();
    for (const auto& [id, parameters] : filters) {
      chain.push_back({.id = id, .parameters = parameters, .codec = {}, .name = {}, .optional = false});
      ids += fmt::format("{} ", id);
    }
    Progress progress;
    attempt([&] { return source_->set_filters(object_at(*source_, name), chain, progress); });
    commits_[before].returned_at = commits_.back().returned_at;
  }
  void commit() {
    attempt([&] { return source_->commit(); });
  }
  void finish() {
    attempt([&] { return source_->finish(); });
  }

  [[nodiscard]] const std::vector<Commit>& commits() const { return commits_; }

 private:
  static void good(const Result<>& result, const std::string& name) {
    EXPECT_TRUE(result) << name << ": " << result.error().reason;
  }
  void open() {
    if (sealing_ == Sealing::each_change) {
      hdf5::IsolatedState state{.shared = shared_,
                                .journal = UniqueFd(::dup(journal_.get())),
                                .damaged = {},
                                .fetched = {},
                                .latest = latest_};
      auto source = hdf5::open_isolated(path_, true, std::move(state), io_);
      if (!source) throw std::runtime_error(source.error().reason);
      isolated_ = source->get();
      source_ = std::move(*source);
      return;
    }
    auto source = open_hdf5(path_, true, io_, latest_);
    if (!source) throw std::runtime_error(source.error().reason);
    source_ = std::move(*source);
  }
  void note_sealed(size_t before) {
    if (sealing_ == Sealing::each_change) good(isolated_->seal(), "seal");
    if (sealing_ != Sealing::none) commits_.push_back({model_, before, SIZE_MAX, io_.operations().size()});
  }
  size_t elements(const std::string& name) { return variable_at(*source_, name)->grid.elements_per_chunk(); }

  /// Runs a change; the source may commit earlier changes before it.
  template <class Change>
  void step(const std::string& name, const Change& change) {
    const size_t before = io_.operations().size();
    good(change(), name);
    const auto syncs = [](const crash_testing::Operation& operation) {
      return operation.kind == crash_testing::Operation::Kind::sync_data;
    };
    const auto begin = io_.operations().begin() + static_cast<ptrdiff_t>(before);
    if (std::any_of(begin, io_.operations().end(), syncs))
      commits_.push_back({model_, before, io_.operations().size()});
  }

  template <class Attempt>
  void attempt(const Attempt& how) {
    commits_.push_back({model_, io_.operations().size(), SIZE_MAX});
    good(how(), "commit");
    commits_.back().returned_at = io_.operations().size();
  }

  void note(const std::string& name, uint64_t number, const Numbers& chunk) {
    const VariablePtr variable = variable_at(*source_, name);
    const ChunkGrid& grid = variable->grid;
    uint64_t at[2];
    grid.coordinates_of(number, at);
    for (uint64_t row = 0; row < grid.chunks()[0]; ++row) {
      for (uint64_t column = 0; column < grid.chunks()[1]; ++column) {
        const uint64_t y = at[0] * grid.chunks()[0] + row;
        const uint64_t x = at[1] * grid.chunks()[1] + column;
        if (y >= grid.shape()[0] || x >= grid.shape()[1]) continue;
        std::memcpy(model_.at(name).data() + (y * grid.shape()[1] + x) * sizeof(int32_t),
                    &chunk[row * grid.chunks()[1] + column], sizeof(int32_t));
      }
    }
  }

  const std::filesystem::path path_;
  crash_testing::Recorder& io_;
  const Sealing sealing_;
  const bool latest_;
  const std::shared_ptr<hdf5::SharedState> shared_ = std::make_shared<hdf5::SharedState>();  // survives reopen()
  const UniqueFd journal_{::memfd_create("journal", MFD_CLOEXEC)};
  State model_;
  std::unique_ptr<Source> source_;
  hdf5::IsolatedSource* isolated_ = nullptr;  // source_, if it is one
  std::vector<Commit> commits_;
  unsigned seed_ = 100;
};

}  // namespace codecfs::hdf5_crash_testing
