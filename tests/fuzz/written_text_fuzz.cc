// Any text where a mount accepts text: the value of an extended attribute, or a metadata file. The first byte selects
// which, and an HDF5 file or a Zarr store. The text is accepted, or refused with a reason. The variable must have valid
// metadata afterwards, and unchanged values if only filters or attributes could change.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "backends/api/processes.h"
#include "backends/api/source.h"
#include "backends/open/source_opener.h"
#include "base/log.h"
#include "fs/filesystem.h"
#include "require.h"

namespace {

using namespace codecfs;
using fs::Ino;

constexpr std::array<float, 4> kValues{1, 2, 3, 4};  // in two chunks
constexpr size_t kLongest = 65536;                   // bytes of an extended attribute
constexpr int kChangesOfATree = 300;                 // then it is recreated

template <class T>
T need(Result<T> result, const char* what) {
  require(result.has_value(), result ? "" : fmt::format("{}: {}", what, result.error().reason));
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

/// A new source with one variable, and a mounted tree of it.
class Subject {
 public:
  explicit Subject(bool is_zarr) : format_(is_zarr ? "zarr" : "hdf5") { make(); }

  /// False if it was refused.
  bool set_attribute(Ino ino, std::string_view name, std::string_view value) {
    return judge(filesystem_->xattrs().set(ino, name, value, fs::XattrMode::any));
  }

  /// Like `>` of a shell.
  bool write(Ino directory, const char* name, std::string_view text) {
    std::unique_ptr<fs::FileHandle> file;
    if (const auto there = filesystem_->names().lookup(directory, name)) {
      auto opened = filesystem_->files().open(there->st_ino, true, true);
      if (!opened) return judge(pass(opened));
      file = *std::move(opened);
    } else {
      auto created = filesystem_->files().create(directory, name, 0644, O_TRUNC);
      if (!created) return judge(pass(created));
      file = std::move(created->file);
    }
    const auto written = file->write(0, std::as_bytes(std::span(text)), nullptr, {});
    const bool taken = written.has_value() && judge(file->flush());
    file->close();
    return taken;
  }

  void check_values() {
    for (int number = 0; number < 2; ++number) {
      const Ino chunk = need(filesystem_->names().lookup(variable_, std::to_string(number)), "a chunk").st_ino;
      const auto file = need(filesystem_->files().open(chunk, false, false), "a chunk opens");
      const fs::Slice slice = need(file->read(0, 8), "a chunk is read");
      require(slice.bytes.size() == 8 && std::memcmp(slice.bytes.data(), kValues.data() + 2 * number, 8) == 0,
              "the values are what they were");
      file->close();
    }
  }
  void check_description() {
    require(filesystem_->xattrs().all(variable_).has_value(), "a variable has attributes");
    const Ino zarray = need(filesystem_->names().lookup(variable_, ".zarray"), "there is a .zarray").st_ino;
    const auto file = need(filesystem_->files().open(zarray, false, false), ".zarray opens");
    file->close();
  }

  void again_after_a_while() {
    if (++changes_ % kChangesOfATree == 0) make();
  }
  void make() {
    if (filesystem_) need(filesystem_->finish(), "all is stored");
    filesystem_.reset();
    std::filesystem::remove_all(path());
    need(SourceOpener().create(path(), format_), "a source is made");
    filesystem_.emplace(need(SourceOpener().open(path(), true), "it opens"),
                        fs::FilesystemOptions{.write_back = {.commit = std::chrono::hours(1)}, .read_only = false});
    variable_ = need(filesystem_->tree().make_directory(fs::kRootIno, "v"), "a directory is made").st_ino;
    require(write(variable_, ".zarray", kArray), "a variable is made");
    variable_ = need(filesystem_->names().lookup(fs::kRootIno, "v"), "the variable is there").st_ino;
    for (int number = 0; number < 2; ++number)
      require(write(variable_, number == 0 ? "0" : "1",
                    {reinterpret_cast<const char*>(kValues.data() + 2 * number), 2 * sizeof(float)}),
              "a chunk is written");
  }
  [[nodiscard]] Ino variable() const { return variable_; }
  Ino make_directory() {
    const std::string name = fmt::format("d{}", changes_);
    return need(filesystem_->tree().make_directory(fs::kRootIno, name), "a directory is made").st_ino;
  }

 private:
  static constexpr std::string_view kArray =
      R"({"zarr_format":2,"shape":[4],"chunks":[2],"dtype":"<f4","compressor":null,"fill_value":0,"filters":null,)"
      R"("order":"C"})";

  template <class T>
  static Result<> pass(const Result<T>& failed) {
    return std::unexpected(failed.error());
  }
  static bool judge(const Result<>& result) {
    if (result) return true;
    const int code = result.error().code;
    require(code != 0, "an error has a number");
    require(!result.error().reason.empty() || code == EEXIST || code == ENODATA || code == EOPNOTSUPP,
            "an error has a reason");
    return false;
  }
  std::string path() {
    static const std::string folder = [] {
      const bool has_memory = std::filesystem::is_directory("/dev/shm");
      std::string name = std::string(has_memory ? "/dev/shm" : "/tmp") + "/codecfs-fuzz-XXXXXX";
      require(::mkdtemp(name.data()) != nullptr, "a folder");
      static std::string to_remove = name;
      std::atexit([] { std::filesystem::remove_all(to_remove); });
      return name;
    }();
    return folder + "/s." + format_;
  }

  const std::string format_;
  std::optional<fs::Filesystem> filesystem_;
  Ino variable_ = 0;
  int changes_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > kLongest) return 0;
  [[maybe_unused]] static const bool ready = [] {
    log::set_level(log::Level::error);
    prepare_sources();
    return true;
  }();
  static std::array<Subject, 2> subjects{Subject(false), Subject(true)};
  Subject& subject = subjects[data[0] & 1];
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (const Ino variable = subject.variable(); (data[0] >> 1) % 10) {
    case 0: subject.set_attribute(variable, "user.units", text); break;
    case 1: subject.set_attribute(variable, "user._Filter", text); break;
    case 2: subject.set_attribute(variable, "user._Codecs", text); break;
    case 3: subject.set_attribute(variable, "user._DeflateLevel", text); break;
    case 4: subject.set_attribute(fs::kRootIno, "user.title", text); break;
    case 5: subject.set_attribute(fs::kRootIno, "user._Filter", text); break;
    case 6: subject.write(variable, ".zattrs", text); break;
    case 7: subject.write(variable, "_Codecs", text); break;
    case 8: subject.write(subject.make_directory(), ".zarray", text); break;
    default:
      if (subject.write(variable, ".zarray", text)) {  // its shape may have changed
        subject.check_description();
        subject.make();
        return 0;
      }
  }
  subject.check_description();
  subject.check_values();
  subject.again_after_a_while();
  return 0;
}
