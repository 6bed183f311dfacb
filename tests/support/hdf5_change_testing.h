#pragma once
// Common code of tests that change an HDF5 file: a writable Source, descriptions of new variables, and the output of
// other programs (ncdump, h5py) for the file afterwards.

#include <array>
#include <cstdio>
#include <fstream>

#include "backends/hdf5/library/library_lock.h"
#include "model/json.h"
#include "support/hdf5_testing.h"

namespace codecfs::hdf5_testing {

inline Json json(std::string_view text) {
  auto value = parse_json(text);
  EXPECT_TRUE(value) << text;
  return value ? *value : Json();
}

/// A variable, described like a .zarray.
inline Variable described(std::string_view dtype, std::vector<uint64_t> shape, std::vector<uint64_t> chunks,
                          std::string_view fill = "null") {
  Variable variable;
  auto type = parse_dtype(json(dtype));
  EXPECT_TRUE(type) << dtype;
  variable.type = *type;
  variable.grid = *ChunkGrid::make(std::move(shape), std::move(chunks));
  variable.chunk_bytes = variable.grid.elements_per_chunk() * variable.type.size;
  variable.fill_value = json(fill);
  variable.fill.assign(variable.type.size, std::byte{0});
  if (variable.type.kind == TypeKind::object) {
    variable.object_codec = Json{{"id", "vlen-utf8"}};
    variable.chunk_bytes.reset();
    const std::string text = variable.fill_value->is_string() ? variable.fill_value->get<std::string>() : "";
    variable.fill.assign(4 + text.size(), std::byte{0});
    variable.fill[0] = static_cast<std::byte>(text.size());
    std::memcpy(variable.fill.data() + 4, text.data(), text.size());
  } else if (!variable.fill_value.is_null()) {
    variable.fill = *fill_bytes(variable.type, variable.fill_value);
  }
  return variable;
}

inline Variable with_dimensions(Variable variable, std::vector<std::string> names) {
  variable.dimensions = std::move(names);
  return variable;
}

/// The output of a command including its errors; `status` gets its exit status.
inline std::string output_of(const std::string& command, int* status = nullptr) {
  std::string text;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::array<char, 4096> part{};
  while (const size_t count = fread(part.data(), 1, part.size(), pipe)) text.append(part.data(), count);
  const int ended = pclose(pipe);
  if (status != nullptr) *status = ended;
  return text;
}

inline bool have(const std::string& command) {
  int status = 0;
  output_of(command, &status);
  return status == 0;
}

/// A file that is changed through a Source.
class Hdf5Changes : public Hdf5Files {
 protected:
  /// Opens the file for writing; creates an empty one if it does not exist.
  Source& source() {
    if (source_) return *source_;
    if (!std::filesystem::exists(path())) {
      const auto created = create_hdf5(path());
      EXPECT_TRUE(created) << (created ? "" : created.error().reason);
    }
    auto opened = open_hdf5(path(), true);
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().reason);
    source_ = std::move(*opened);
    return *source_;
  }
  /// Ends writing as an unmount does, so that other programs can read the file.
  void finish() {
    if (!source_) return;
    const auto finished = source_->finish();
    EXPECT_TRUE(finished) << (finished ? "" : finished.error().reason);
    source_.reset();
  }
  void reopen() {
    finish();
    source();
  }

  ObjectId at(const std::string& where) { return object_at(source(), where); }
  VariablePtr variable(const std::string& where) { return variable_at(source(), where); }

  static std::pair<std::string, std::string> split(const std::string& where) {
    const size_t slash = where.rfind('/');
    if (slash == std::string::npos) return {"", where};
    return {where.substr(0, slash), where.substr(slash + 1)};
  }
  Result<Entry> make_group(const std::string& where) {
    const auto [group, name] = split(where);
    return source().make_group(at(group), name);
  }
  Result<Entry> make(const std::string& where, const Variable& variable) {
    const auto [group, name] = split(where);
    return source().make_variable(at(group), name, variable);
  }
  Result<> remove(const std::string& where) {
    const auto [group, name] = split(where);
    return source().remove(at(group), name);
  }
  Result<> move(const std::string& from, const std::string& to) {
    const auto [group, name] = split(from);
    const auto [new_group, new_name] = split(to);
    return source().rename(at(group), name, at(new_group), new_name);
  }
  Result<> dimensions(const std::string& where, const std::vector<std::string>& names) {
    return source().set_dimensions(at(where), names);
  }
  std::vector<std::string> dimensions(const std::string& where) {
    const VariablePtr facts = variable(where);
    return facts && facts->dimensions ? *facts->dimensions : std::vector<std::string>{"?"};
  }
  std::vector<std::string> names(const std::string& group) {
    std::vector<std::string> names;
    for (const Entry& entry : source().list(at(group)).value_or(std::vector<Entry>())) names.push_back(entry.name);
    return names;
  }
  /// The output of ncdump -h, after finish(). Skips the test if ncdump is not installed.
  std::string ncdump(const std::string& options = "-h") {
    finish();
    int status = 0;
    std::string text = output_of("ncdump " + options + " '" + path() + "'", &status);
    EXPECT_EQ(status, 0) << text;
    return text;
  }
  /// Runs lines of Python with h5py as h5 and the open file as f; returns the output.
  std::string h5py(const std::string& lines, const std::string& mode = "r") {
    finish();
    std::ofstream script(path("script.py"));
    script << "import h5py as h5, numpy as np\nf = h5.File('" << path() << "', '" << mode << "')\n" << lines;
    script.close();
    int status = 0;
    std::string text = output_of("/usr/bin/python3 -B '" + path("script.py") + "'", &status);
    EXPECT_EQ(status, 0) << text;
    return text;
  }

 private:
  std::unique_ptr<Source> source_;
};

inline bool have_ncdump() {
  static const bool there = have("command -v ncdump");
  return there;
}
inline bool have_h5py() {
  static const bool there = have("/usr/bin/python3 -c 'import h5py'");
  return there;
}

#define CODECFS_NEEDS(condition) \
  if (!(condition)) GTEST_SKIP() << "needs " #condition
template <class T>
testing::AssertionResult is_good(const char* what, const Result<T>& result) {
  if (result) return testing::AssertionSuccess();
  return testing::AssertionFailure() << what << ": " << result.error().reason;
}
template <class T>
testing::AssertionResult is_refused(const char* what, const char*, const Result<T>& result, int code) {
  if (result) return testing::AssertionFailure() << what << " was successful";
  if (result.error().code == code) return testing::AssertionSuccess();
  return testing::AssertionFailure() << what << ": not " << std::strerror(code) << " but " << result.error().reason;
}
#define EXPECT_GOOD(expression) EXPECT_PRED_FORMAT1(is_good, expression)
#define EXPECT_REFUSED(expression, code) EXPECT_PRED_FORMAT2(is_refused, expression, code)

}  // namespace codecfs::hdf5_testing
