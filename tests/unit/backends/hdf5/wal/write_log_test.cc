// The write-ahead log without failures: what is visible, locked, kept and removed. And the logs that are refused.

#include "backends/hdf5/wal/write_log.h"

#include <malloc.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include "backends/hdf5/wal/write_log_format.h"
#include "backends/hdf5/wal/write_log_search.h"
#include "base/endian.h"
#include "support/blocking_sync.h"
#include "support/crash_simulator.h"
#include "support/write_log_testing.h"

namespace codecfs {
namespace {

using namespace write_log_testing;
using hdf5::LoggedFile;

class WriteLog : public LoggedSource {
 protected:
  std::unique_ptr<LoggedFile> open() {
    auto file = LoggedFile::open(source_, io_);
    EXPECT_TRUE(file) << file.error().reason;
    return file ? std::move(*file) : nullptr;
  }
  /// Leaves the files of a writer that is killed after three commits; returns the states, beginning with the initial
  /// one.
  std::vector<Content> killed_writer() {
    std::vector<Content> states = {before_};
    const auto file = open();
    EXPECT_TRUE(file->begin_writing());
    for (unsigned i = 0; i < 3; ++i) {
      const Content bytes = noise(1000, 50 + i);
      states.push_back(states.back());
      overwrite(states.back(), 9500 + i * 300, bytes);
      EXPECT_TRUE(file->write(9500 + i * 300, bytes));
      EXPECT_TRUE(file->commit());
    }
    return states;
  }
  /// Opening and recovering must fail with this code and change nothing.
  void expect_refused(int code, const std::string& reason) {
    const Content source = content_of(source_);
    const Content log = content_of(log_);
    const auto opened = LoggedFile::open(source_);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, code) << opened.error().reason;
    EXPECT_NE(opened.error().reason.find(reason), std::string::npos) << opened.error().reason;
    const auto recovered = hdf5::recover_log(source_, io_);
    ASSERT_FALSE(recovered);
    EXPECT_EQ(recovered.error().code, code);
    EXPECT_TRUE(content_of(source_) == source);
    EXPECT_TRUE(content_of(log_) == log);
  }
  /// Replaces bytes of the log's header and updates its checksum.
  void patch_header(size_t at, uint32_t value) {
    Content log = content_of(log_);
    store_le<uint32_t>(log.data() + at, value);
    store_le<uint64_t>(log.data() + 504, hdf5::continue_checksum(0, Bytes(log).first(504)));
    store(log_, log);
  }

  /// Changes some bytes of the source, and its mtime.
  void edit(size_t at) {
    std::fstream stream(source_, std::ios::binary | std::ios::in | std::ios::out);
    stream.seekp(static_cast<std::streamoff>(at));
    stream << "edited with another program" << std::flush;
    std::filesystem::last_write_time(source_, std::filesystem::last_write_time(source_) + std::chrono::hours(1));
  }
  /// Gives a file another inode and mtime.
  void copy_anew(const std::filesystem::path& path) const {
    std::filesystem::copy_file(path, directory_ / "new");
    std::filesystem::rename(directory_ / "new", path);
    std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + std::chrono::hours(1));
  }
  [[nodiscard]] bool is_marked() const { return ::getxattr(source_.c_str(), hdf5::kLogMark, nullptr, 0) > 0; }

  crash_testing::UnsyncedIo io_;
};

TEST_F(WriteLog, SourceChangesOnlyInACheckpoint) {
  const auto file = open();
  ASSERT_TRUE(file->begin_writing());
  struct stat log;
  struct stat source;
  ASSERT_EQ(::stat(log_.c_str(), &log), 0);
  ASSERT_EQ(::stat(source_.c_str(), &source), 0);
  EXPECT_EQ(log.st_mode, source.st_mode);

  Content expected = before_;
  overwrite(expected, 100, noise(50, 2));
  ASSERT_TRUE(file->write(100, noise(50, 2)));
  EXPECT_TRUE(shown_by(*file) == expected);
  const auto early = file->checkpoint();
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code, EINVAL);
  ASSERT_TRUE(file->commit());
  EXPECT_TRUE(content_of(source_) == before_);
  EXPECT_GT(file->log_bytes(), 50U);
  ASSERT_TRUE(file->checkpoint());
  EXPECT_TRUE(content_of(source_) == expected);
  EXPECT_EQ(file->log_bytes(), 0U);
  EXPECT_EQ(std::filesystem::file_size(log_), hdf5::kLogHeaderBytes);
  ASSERT_TRUE(file->finish());
  EXPECT_FALSE(std::filesystem::exists(log_));
}

TEST_F(WriteLog, CommitOfNothingWritesNothing) {
  const auto file = open();
  ASSERT_TRUE(file->commit());
  ASSERT_TRUE(file->begin_writing());
  ASSERT_TRUE(file->commit());
  EXPECT_EQ(file->log_bytes(), 0U);
}

TEST_F(WriteLog, KeptAsideIsSeenAndDropped) {
  const auto file = open();
  ASSERT_TRUE(file->write(5, noise(5, 3)));
  ASSERT_TRUE(file->set_size(9));
  EXPECT_EQ(shown_by(*file).size(), 9U);
  const auto committed = file->commit();
  ASSERT_FALSE(committed);
  EXPECT_EQ(committed.error().code, EINVAL);
  ASSERT_TRUE(file->finish());
  EXPECT_TRUE(shown_by(*file) == before_);
  EXPECT_TRUE(content_of(source_) == before_);
  EXPECT_FALSE(std::filesystem::exists(log_));
}

TEST_F(WriteLog, KilledWriterIsShownCheckedAndRecovered) {
  const Content last = killed_writer().back();
  EXPECT_TRUE(content_of(source_) == before_);
  EXPECT_TRUE(shown_by(*open()) == last);
  const auto checked = hdf5::check_log(source_);
  ASSERT_TRUE(checked);
  EXPECT_TRUE(checked->pending);
  EXPECT_EQ(checked->transactions, 3U);
  EXPECT_EQ(checked->bytes, 3000U);
  EXPECT_TRUE(content_of(source_) == before_);
  ASSERT_TRUE(hdf5::recover_log(source_));  // with real syncs
  EXPECT_TRUE(content_of(source_) == last);
  EXPECT_FALSE(std::filesystem::exists(log_));
  EXPECT_FALSE(hdf5::check_log(source_)->pending);
}

TEST_F(WriteLog, KeptAsideLiesOverARecoveredLog) {
  Content expected = killed_writer().back();
  const auto file = open();
  ASSERT_TRUE(file->write(9600, noise(100, 9)));
  ASSERT_TRUE(file->set_size(9650));
  ASSERT_TRUE(file->set_size(9800));
  overwrite(expected, 9600, noise(100, 9));
  expected.resize(9650);
  expected.resize(9800);
  EXPECT_TRUE(shown_by(*file) == expected);
  ASSERT_TRUE(file->begin_writing());
  EXPECT_TRUE(shown_by(*file) == expected);
  ASSERT_TRUE(file->commit());
  ASSERT_TRUE(file->finish());
  EXPECT_TRUE(content_of(source_) == expected);
}

TEST_F(WriteLog, LogLiesBesideTheRealPath) {
  const auto link = directory_ / "link.h5";
  std::filesystem::create_symlink("data.h5", link);
  auto file = LoggedFile::open(link, io_);
  ASSERT_TRUE(file);
  ASSERT_TRUE((*file)->begin_writing());
  EXPECT_TRUE(std::filesystem::exists(log_));
}

TEST_F(WriteLog, OneWriter) {
  const auto first = open();
  const auto second = open();
  auto refused = first->begin_writing();  // the other one is reading
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EBUSY);
  EXPECT_FALSE(std::filesystem::exists(log_));
}

TEST_F(WriteLog, OthersAreKeptOutWhileOneWrites) {
  const auto file = open();
  ASSERT_TRUE(file->begin_writing());
  const auto late = LoggedFile::open(source_, io_);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, EBUSY);
  const auto recovered = hdf5::recover_log(source_);
  ASSERT_FALSE(recovered);
  EXPECT_EQ(recovered.error().code, EBUSY);
  ASSERT_TRUE(file->finish());
  EXPECT_TRUE(LoggedFile::open(source_, io_));
}

TEST_F(WriteLog, LockOfAnHdf5ProgramKeepsWritersOut) {
  const UniqueFd other(::open(source_.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(other.get(), LOCK_EX), 0);
  const auto file = open();
  ASSERT_NE(file, nullptr);
  EXPECT_TRUE(file->locked_by_another());
  ASSERT_TRUE(file->write(0, noise(10, 1)));
  const auto refused = file->begin_writing();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EBUSY);
  ASSERT_EQ(::flock(other.get(), LOCK_UN), 0);
  EXPECT_TRUE(file->begin_writing());
}

TEST_F(WriteLog, SourceChangedSinceOpenIsNotWritten) {
  const auto file = open();
  store(source_, noise(10'000, 7));
  const auto changed = file->begin_writing();
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().code, ESTALE);
  const auto again = open();
  store(directory_ / "new", before_);
  std::filesystem::rename(directory_ / "new", source_);
  const auto replaced = again->begin_writing();
  ASSERT_FALSE(replaced);
  EXPECT_EQ(replaced.error().code, ESTALE);
  EXPECT_FALSE(std::filesystem::exists(log_));
}

TEST_F(WriteLog, ContentOfADeletedSourceIsWrittenBesideTheLog) {
  auto expected = before_;
  const auto file = open();
  ASSERT_TRUE(file->begin_writing());
  const Content first = noise(3000, 1);
  const Content second = noise(2000, 2);
  overwrite(expected, 500, first);
  ASSERT_TRUE(file->write(500, first));
  ASSERT_TRUE(file->commit());
  std::filesystem::remove(source_);
  EXPECT_TRUE(file->is_gone());
  overwrite(expected, 9000, second);
  ASSERT_TRUE(file->write(9000, second));
  const auto committed = file->commit();
  ASSERT_FALSE(committed);
  EXPECT_EQ(committed.error().code, ESTALE);
  const auto checkpointed = file->checkpoint();
  ASSERT_FALSE(checkpointed);
  EXPECT_EQ(checkpointed.error().code, ESTALE);
  ASSERT_TRUE(file->write(0, noise(100, 3)));  // not sealed
  const auto finished = file->finish();
  ASSERT_FALSE(finished);
  EXPECT_EQ(finished.error().code, ESTALE);
  const std::string rescued = source_.string() + ".codecfs-rescued";
  EXPECT_NE(finished.error().reason.find(rescued), std::string::npos) << finished.error().reason;
  EXPECT_EQ(content_of(rescued), expected);
  EXPECT_FALSE(std::filesystem::exists(log_));
}

TEST_F(WriteLog, SourceThatWasOnlyOpenedForWritingMayBeDeleted) {
  const auto file = open();
  ASSERT_TRUE(file->begin_writing());
  std::filesystem::remove(source_);
  EXPECT_TRUE(file->commit());
  EXPECT_TRUE(file->finish());
  EXPECT_TRUE(std::filesystem::is_empty(directory_));
}

TEST_F(WriteLog, EditedSourceIsRefused) {
  killed_writer();
  const auto time = std::filesystem::last_write_time(source_);
  edit(7000);  // which the log does not replace
  expect_refused(EUCLEAN, "touch -d @");
  edit(9600);
  expect_refused(EUCLEAN, "bytes that the log replaces");
  std::filesystem::last_write_time(source_, time);
  expect_refused(EUCLEAN, "bytes that the log replaces");
}

TEST_F(WriteLog, SourceOfAnotherSizeOrBeginningIsRefused) {
  killed_writer();
  const auto time = std::filesystem::last_write_time(source_);
  edit(100);
  std::filesystem::last_write_time(source_, time);
  expect_refused(EUCLEAN, "first bytes");
  std::filesystem::resize_file(source_, 9000);
  expect_refused(EUCLEAN, "size");
}

TEST_F(WriteLog, CopyIsKnownByItsContent) {
  const Content last = killed_writer().back();
  const auto time = std::filesystem::last_write_time(source_);
  copy_anew(source_);
  copy_anew(log_);
  expect_refused(EUCLEAN, "touch -d @");
  std::filesystem::last_write_time(source_, time);
  EXPECT_TRUE(shown_by(*open()) == last);
  // As in an archive, in whole seconds.
  std::filesystem::last_write_time(source_, std::chrono::floor<std::chrono::seconds>(time));
  EXPECT_TRUE(shown_by(*open()) == last);
  std::filesystem::last_write_time(source_, std::chrono::floor<std::chrono::seconds>(time) - std::chrono::seconds(1));
  expect_refused(EUCLEAN, "touch -d @");
  std::filesystem::last_write_time(source_, std::chrono::floor<std::chrono::seconds>(time));
  ASSERT_TRUE(hdf5::recover_log(source_));
  EXPECT_TRUE(content_of(source_) == last);
}

// Each replaced piece may be old or final; any other byte in one is refused, before and after the copy.
TEST_F(WriteLog, InterruptedCheckpointIsKnownByItsContent) {
  const Content last = killed_writer().back();
  patch_header(64, 6);  // three times data and commit
  patch_header(12, 1);
  const Content log = content_of(log_);
  for (const Content& whole : {before_, last}) {
    for (size_t at = 9500; at < before_.size(); at += 37) {
      Content damaged = whole;
      damaged[at] ^= std::byte{1};
      store(source_, damaged);
      ASSERT_FALSE(LoggedFile::open(source_)) << at;
    }
  }
  // Pieces end at sector boundaries: any subset of them may have been written.
  for (unsigned mask = 0; mask < 16; ++mask) {
    Content mixed = before_;
    for (unsigned i = 0; i < 4; ++i) {
      const size_t from = std::max<size_t>(9500, 9216 + i * 512);
      const size_t until = std::min(last.size(), 9216 + (i + 1) * size_t{512});
      if ((mask >> i & 1) == 0 || from >= until) continue;
      mixed.resize(std::max(mixed.size(), until));
      std::copy(last.begin() + static_cast<ptrdiff_t>(from), last.begin() + static_cast<ptrdiff_t>(until),
                mixed.begin() + static_cast<ptrdiff_t>(from));
    }
    store(source_, mixed);
    store(log_, log);
    ASSERT_TRUE(shown_by(*open()) == last) << mask;
    ASSERT_TRUE(hdf5::recover_log(source_, io_)) << mask;
    ASSERT_TRUE(content_of(source_) == last) << mask;
  }
  store(source_, before_);
  store(log_, log);
  edit(0);
  expect_refused(EUCLEAN, "first bytes");
  store(source_, before_);
  std::filesystem::resize_file(source_, 12'000);
  expect_refused(EUCLEAN, "size");
}

// The layout of version 1, which had no checksums of replaced bytes.
TEST_F(WriteLog, LogOfVersionOneIsRecovered) {
  const auto write_log = [&](uint64_t checkpoint) {
    const UniqueFd fd(::open(source_.c_str(), O_RDONLY | O_CLOEXEC));
    const auto identity = hdf5::identify({.fd = UniqueFd(::dup(fd.get())), .path = source_});
    hdf5::LogHeader header{.salt = 7, .source = *identity, .checkpoint = checkpoint};
    header.version = 1;
    const auto head = hdf5::encode_header(header);
    Content log(head.begin(), head.end());
    uint64_t checksum = hdf5::first_checksum(7);
    const Content payload = noise(700, 3);
    const auto data = hdf5::encode_frame({.kind = hdf5::FrameKind::data, .sequence = 1, .offset = 600, .length = 700},
                                         7, {}, payload, checksum);
    log.insert(log.end(), data.begin(), data.end());
    log.insert(log.end(), payload.begin(), payload.end());
    const auto commit = hdf5::encode_frame({.kind = hdf5::FrameKind::commit, .sequence = 2}, 7, {}, {}, checksum);
    log.insert(log.end(), commit.begin(), commit.end());
    store(log_, log);
  };
  Content expected = before_;
  overwrite(expected, 600, noise(700, 3));
  for (const uint64_t checkpoint : {0, 2}) {
    store(source_, before_);
    write_log(checkpoint);
    EXPECT_TRUE(shown_by(*open()) == expected);
    const auto time = std::filesystem::last_write_time(source_);
    copy_anew(source_);
    std::filesystem::last_write_time(source_, time);
    expect_refused(EUCLEAN, "version 1");
    write_log(checkpoint);
    ASSERT_TRUE(hdf5::recover_log(source_));
    EXPECT_TRUE(content_of(source_) == expected);
    EXPECT_FALSE(std::filesystem::exists(log_));
  }
}

// Names -------------------------------------------------------------------------------------------------------------

TEST_F(WriteLog, MarkIsThereWhileThereIsALog) {
  const auto file = open();
  EXPECT_FALSE(is_marked());
  ASSERT_TRUE(file->begin_writing());
  ASSERT_TRUE(is_marked());
  ASSERT_TRUE(file->write(100, noise(50, 2)));
  ASSERT_TRUE(file->commit());
  ASSERT_TRUE(file->checkpoint());
  EXPECT_TRUE(is_marked());
  ASSERT_TRUE(file->finish());
  EXPECT_FALSE(is_marked());
}

TEST_F(WriteLog, DamagedMarksAreReported) {
  const std::vector<std::string> values = {"",
                                           "x",
                                           "fffffffffffffffff/.data.h5.codecfs-wal",
                                           "0123456789abcdef /etc/passwd",
                                           "0123456789abcdef relative/.data.h5.codecfs-wal",
                                           "0123456789abcdef /nowhere/.data.h5.codecfs-wal",
                                           std::string(3000, 'f')};
  for (const std::string& value : values) {
    ASSERT_EQ(::setxattr(source_.c_str(), hdf5::kLogMark, value.data(), value.size(), 0), 0);
    const auto file = open();
    ASSERT_TRUE(file->missing_log()) << value;
    EXPECT_NE(file->missing_log()->reason.find("setfattr -x"), std::string::npos);
    EXPECT_TRUE(shown_by(*file) == before_);
    const auto refused = file->begin_writing();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, EUCLEAN);
    EXPECT_FALSE(hdf5::check_log(source_));
    EXPECT_FALSE(hdf5::recover_log(source_));
    EXPECT_FALSE(std::filesystem::exists(log_));
  }
}

TEST_F(WriteLog, SeveralNamesNeedTheMark) {
  class NoAttributes : public crash_testing::UnsyncedIo {
    Result<> set_attribute(const File&, const std::string&, const std::string&) override {
      return fail_errno(EOPNOTSUPP, "injected");
    }
  } io;
  auto file = LoggedFile::open(source_, io);
  ASSERT_TRUE((*file)->begin_writing()) << "one name";
  ASSERT_TRUE((*file)->finish());
  std::filesystem::create_hard_link(source_, directory_ / "other.h5");
  const auto refused = (*file)->begin_writing();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EMLINK) << refused.error().reason;
  EXPECT_FALSE(std::filesystem::exists(log_));
  file->reset();
  EXPECT_TRUE(open()->begin_writing()) << "with attributes";
}

TEST_F(WriteLog, LogOfAnotherFileIsLeftAlone) {
  killed_writer();  // of data.h5
  const auto other = directory_ / "other.h5";
  store(other, before_);
  const auto time = std::filesystem::last_write_time(source_);
  std::filesystem::last_write_time(other, time);
  const auto file = LoggedFile::open(other);  // as a copy without attributes
  ASSERT_TRUE(file);
  EXPECT_FALSE((*file)->found().pending);
  ASSERT_TRUE((*file)->begin_writing());
  ASSERT_TRUE((*file)->finish());
  EXPECT_TRUE(hdf5::check_log(source_)->pending);
}

TEST_F(WriteLog, StaleLogOfTheNewNameDoesNotHideTheMarkedOne) {
  const Content last = killed_writer().back();
  const auto other = directory_ / "other.h5";
  const auto others_log = directory_ / ".other.h5.codecfs-wal";
  store(others_log, Content(512));  // never synced
  std::filesystem::rename(source_, other);
  EXPECT_TRUE(shown_by(**LoggedFile::open(other)) == last);
  ASSERT_TRUE(hdf5::recover_log(other));
  EXPECT_TRUE(content_of(other) == last);
  EXPECT_FALSE(std::filesystem::exists(log_));
  EXPECT_FALSE(std::filesystem::exists(others_log));
}

// Disk space --------------------------------------------------------------------------------------------------------

// On a full disk, or over a quota, the checkpoint fails before a byte of the source has changed, however often it is
// tried, and further writes can be committed.
TEST_F(WriteLog, CheckpointWithoutRoomChangesNothing) {
  class FullDisk : public crash_testing::UnsyncedIo {
   public:
    Result<> allocate(const File& file, uint64_t offset, uint64_t size) override {
      if (file.path.ends_with("data.h5") && code != 0) return fail_errno(code, "injected");
      return UnsyncedIo::allocate(file, offset, size);
    }
    int code = 0;
  } io;
  for (const int code : {ENOSPC, EDQUOT, EFBIG}) {
    store(source_, before_);
    auto opened = LoggedFile::open(source_, io);
    ASSERT_TRUE(opened);
    auto& file = **opened;
    ASSERT_TRUE(file.begin_writing());
    Content expected = before_;
    io.code = code;
    for (unsigned i = 0; i < 4; ++i) {
      overwrite(expected, 9000 + i * 1000, noise(5000, i));
      ASSERT_TRUE(file.write(9000 + i * 1000, noise(5000, i)));
      ASSERT_TRUE(file.commit());
      const auto failed = file.checkpoint();
      ASSERT_FALSE(failed);
      EXPECT_EQ(failed.error().code, code);
      EXPECT_TRUE(content_of(source_) == before_);
      EXPECT_TRUE(shown_by(file) == expected);
    }
    ASSERT_FALSE(file.finish());
    opened->reset();  // as if it were killed
    EXPECT_TRUE(shown_by(*open()) == expected);
    const auto failed = hdf5::recover_log(source_, io);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, code);
    EXPECT_TRUE(content_of(source_) == before_);
    EXPECT_TRUE(shown_by(*open()) == expected);
    io.code = 0;
    ASSERT_TRUE(hdf5::recover_log(source_, io));
    EXPECT_TRUE(content_of(source_) == expected);
  }
}

TEST_F(WriteLog, LimitOnFileSizesIsFoundBeforeAByteChanges) {
  const auto file = open();
  ASSERT_TRUE(file->begin_writing());
  ASSERT_TRUE(file->write(9000, noise(5000, 2)));
  ASSERT_TRUE(file->commit());
  const auto limited = [](rlim_t bytes, const auto& work) {
    struct rlimit before;
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit small{.rlim_cur = bytes, .rlim_max = before.rlim_max};
    const auto action = std::signal(SIGXFSZ, SIG_IGN);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    work();
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    std::signal(SIGXFSZ, action);
  };
  limited(13'999, [&] {
    const auto failed = file->checkpoint();
    EXPECT_TRUE(!failed && failed.error().code == EFBIG);
    const auto reserved = file->reserve(10, 10);
    EXPECT_TRUE(!reserved && reserved.error().code == EFBIG);
    EXPECT_TRUE(content_of(source_) == before_);
  });
  limited(14'000, [&] { EXPECT_TRUE(file->checkpoint()); });
  EXPECT_EQ(std::filesystem::file_size(source_), 14'000U);
}

/// The permitted changes of the source, in order.
TEST_F(WriteLog, SuperblockIsWrittenLast) {
  const Content signature = {std::byte{0x89}, std::byte{'H'},  std::byte{'D'},  std::byte{'F'},
                             std::byte{'\r'}, std::byte{'\n'}, std::byte{0x1a}, std::byte{'\n'}};
  for (const size_t at : {0, 512, 2048}) {
    Content content = before_;
    overwrite(content, at, signature);
    store(source_, content);
    crash_testing::Recorder recorder(directory_);
    auto file = LoggedFile::open(source_, recorder);
    ASSERT_TRUE((*file)->begin_writing());
    ASSERT_TRUE((*file)->write(0, noise(at, 3)));
    ASSERT_TRUE((*file)->write(at + 8, noise(6000, 3)));
    ASSERT_TRUE((*file)->write(9000, noise(6000, 4)));
    ASSERT_TRUE((*file)->commit());
    ASSERT_TRUE((*file)->finish());
    using Kind = crash_testing::Operation::Kind;
    std::vector<std::pair<Kind, uint64_t>> on_source;
    for (const auto& operation : recorder.operations())
      if (operation.file == 0 && (!operation.bytes.empty() || operation.kind == Kind::sync))
        on_source.emplace_back(operation.kind, operation.offset);
    const auto last = std::ranges::find_if(on_source.rbegin(), on_source.rend(),
                                           [](const auto& one) { return one.first == Kind::write; });
    ASSERT_NE(last, on_source.rend());
    EXPECT_EQ(last->second, at + 8);
    ASSERT_NE(std::next(last), on_source.rend());
    EXPECT_EQ(std::next(last)->first, Kind::sync);
  }
}

TEST_F(WriteLog, UnknownVersionIsRefused) {
  killed_writer();
  patch_header(8, 3);
  expect_refused(ENOTSUP, "format version 3");
}

TEST_F(WriteLog, DamagedHeaderIsRefused) {
  killed_writer();
  const Content whole = content_of(log_);
  for (const size_t at : {0U, 17U, 45U, 64U, 300U, 511U}) {
    Content log = whole;
    log[at] ^= std::byte{4};
    store(log_, log);
    expect_refused(EUCLEAN, "header");
  }
}

TEST_F(WriteLog, CheckpointWhoseFramesAreDamagedIsRefused) {
  killed_writer();
  patch_header(64, 6);  // three times data and commit
  patch_header(12, 1);
  Content log = content_of(log_);
  log[log.size() - 60] ^= std::byte{1};
  store(log_, log);
  expect_refused(EUCLEAN, "was interrupted");
}

TEST_F(WriteLog, HeaderThatWasNeverSyncedHoldsNothing) {
  for (const Content& log : {Content{}, Content(100), Content(512), Content(2000), noise(200, 4)}) {
    store(log_, log);
    EXPECT_TRUE(shown_by(*open()) == before_);
    const auto recovered = hdf5::recover_log(source_, io_);
    ASSERT_TRUE(recovered) << recovered.error().reason;
    EXPECT_FALSE(recovered->pending);
    EXPECT_FALSE(std::filesystem::exists(log_));
    store(log_, log);
    ASSERT_TRUE(open()->begin_writing());
    std::filesystem::remove(log_);
    ::removexattr(source_.c_str(), hdf5::kLogMark);
  }
  EXPECT_TRUE(content_of(source_) == before_);
}

TEST_F(WriteLog, FlippedBitsInFramesGiveAnOlderCommit) {
  const std::vector<Content> states = killed_writer();
  const Content whole = content_of(log_);
  std::vector<size_t> seen(states.size());
  for (size_t at = hdf5::kLogHeaderBytes; at < whole.size(); ++at) {
    Content log = whole;
    log[at] ^= static_cast<std::byte>(1U << (at % 8));
    store(log_, log);
    const Content shown = shown_by(*open());
    const auto found = std::ranges::find(states, shown);
    ASSERT_NE(found, states.end()) << at;
    ++seen[static_cast<size_t>(found - states.begin())];
  }
  EXPECT_EQ(seen[3], 0U);
  for (const size_t older : {0, 1, 2}) EXPECT_GT(seen[older], 1000U);
}

TEST_F(WriteLog, CutLogsGiveAnOlderCommit) {
  const std::vector<Content> states = killed_writer();
  const Content whole = content_of(log_);
  for (size_t size = hdf5::kLogHeaderBytes; size <= whole.size(); size += 5) {
    store(log_, Content(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size)));
    ASSERT_NE(std::ranges::find(states, shown_by(*open())), states.end()) << size;
  }
}

TEST_F(WriteLog, FramesOfAnEarlierGenerationAreVoid) {
  killed_writer();
  const Content old = content_of(log_);
  Content expected;
  {
    const auto file = open();
    ASSERT_TRUE(file->begin_writing());
    expected = shown_by(*file);
  }
  Content log = content_of(log_);
  log.insert(log.end(), old.begin() + hdf5::kLogHeaderBytes, old.end());
  store(log_, log);
  EXPECT_TRUE(shown_by(*open()) == expected);
  EXPECT_FALSE(hdf5::check_log(source_)->pending);
}

TEST_F(WriteLog, LogThatIsNoFileIsRefused) {
  std::filesystem::create_symlink(source_, log_);
  EXPECT_FALSE(LoggedFile::open(source_));
  std::filesystem::remove(log_);
  std::filesystem::create_directory(log_);
  EXPECT_FALSE(LoggedFile::open(source_));
}

TEST_F(WriteLog, FailedSyncEndsCommitsButNotReading) {
  class FailingSync : public crash_testing::UnsyncedIo {
   public:
    Result<> sync_data(const File&) override {
      if (failing) return fail_errno(EIO, "injected");
      return {};
    }
    bool failing = false;
  } io;
  auto file = LoggedFile::open(source_, io);
  ASSERT_TRUE(file);
  ASSERT_TRUE((*file)->begin_writing());
  ASSERT_TRUE((*file)->write(0, noise(10, 5)));
  io.failing = true;
  ASSERT_FALSE((*file)->commit());
  io.failing = false;  // as the kernel does
  const auto later = (*file)->commit();
  ASSERT_FALSE(later);
  EXPECT_EQ(later.error().code, EIO);
  EXPECT_FALSE((*file)->write(0, noise(10, 6)));
  EXPECT_FALSE((*file)->checkpoint());
  EXPECT_FALSE((*file)->finish());
  Content expected = before_;
  overwrite(expected, 0, noise(10, 5));
  EXPECT_TRUE(shown_by(**file) == expected);
  EXPECT_TRUE(content_of(source_) == before_);
}

TEST_F(WriteLog, RollbackKeepsWhatIsSealedButNotSyncedYet) {
  crash_testing::BlockingSync io;
  Content expected = before_;
  overwrite(expected, 0, noise(10, 5));
  {
    auto opened = LoggedFile::open(source_, io);
    ASSERT_TRUE(opened);
    LoggedFile& file = **opened;
    ASSERT_TRUE(file.begin_writing());
    ASSERT_TRUE(file.write(0, noise(10, 5)));
    ASSERT_TRUE(file.seal());
    io.block();
    std::thread syncing([&] { EXPECT_TRUE(file.sync_sealed()); });
    io.await_sync();
    ASSERT_TRUE(file.write(20, noise(10, 6)));
    std::thread rolling_back([&] { EXPECT_TRUE(file.rollback()); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    io.resume();
    syncing.join();
    rolling_back.join();
    EXPECT_TRUE(shown_by(file) == expected);
    const auto more = file.sync_sealed();
    EXPECT_TRUE(more && !*more);
  }
  EXPECT_TRUE(shown_by(*open()) == expected);
}

TEST_F(WriteLog, CheckpointSyncsWhatIsSealed) {
  crash_testing::BlockingSync io;
  auto opened = LoggedFile::open(source_, io);
  ASSERT_TRUE(opened);
  LoggedFile& file = **opened;
  ASSERT_TRUE(file.begin_writing());
  ASSERT_TRUE(file.write(0, noise(10, 5)));
  ASSERT_TRUE(file.seal());
  io.fail_syncs(true);
  EXPECT_FALSE(file.checkpoint());
  EXPECT_TRUE(content_of(source_) == before_);  // no byte of the source is changed before the log is durable
  EXPECT_FALSE(file.sync_sealed());
}

TEST_F(WriteLog, DirectoryThatCannotBeWritten) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write anywhere";
  std::filesystem::permissions(directory_, std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  const auto file = open();
  const auto refused = file->begin_writing();
  std::filesystem::permissions(directory_, std::filesystem::perms::owner_all);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EACCES);
}

TEST_F(WriteLog, ReadersSeeOldOrNewOfEachWrite) {
  // Each block contains one repeated number; a reader that sees two numbers in a block has seen a partial write.
  constexpr size_t kBlock = 3000;
  constexpr size_t kBlocks = 8;
  store(source_, Content(kBlock * kBlocks));
  const auto file = open();
  std::atomic<bool> stop = false;
  std::atomic<size_t> reads = 0;
  std::vector<std::thread> readers;
  for (unsigned i = 0; i < 4; ++i) {
    readers.emplace_back([&, i] {
      std::mt19937 random(i);
      Content block(kBlock);
      while (!stop) {
        const auto count = file->read(random() % kBlocks * kBlock, block);
        ASSERT_TRUE(count) << count.error().reason;
        ASSERT_EQ(*count, kBlock);
        ASSERT_TRUE(std::ranges::all_of(block, [&](std::byte byte) { return byte == block[0]; }));
        ASSERT_GE(file->size(), kBlock * kBlocks);
        ++reads;
      }
    });
  }
  std::mt19937 random(99);
  for (int round = 0; round < 600; ++round) {
    if (round == 50) {
      ASSERT_TRUE(file->begin_writing());
    }
    ASSERT_TRUE(file->write(random() % kBlocks * kBlock, Content(kBlock, static_cast<std::byte>(random()))));
    if (round == 60) {
      ASSERT_TRUE(file->write(kBlock * kBlocks, Content(10)));
    }
    if (round == 70) {
      ASSERT_TRUE(file->set_size(kBlock * kBlocks));
    }
    if (round > 50 && round % 3 == 0) {
      ASSERT_TRUE(file->commit());
    }
    if (round > 50 && round % 30 == 0) {
      ASSERT_TRUE(file->checkpoint());
    }
    if (round == 400) {
      ASSERT_TRUE(file->commit());
      ASSERT_TRUE(file->finish());
      ASSERT_TRUE(file->begin_writing());
    }
  }
  while (reads < 1000) std::this_thread::yield();
  stop = true;
  for (auto& reader : readers) reader.join();
  const Content last = shown_by(*file);
  ASSERT_TRUE(file->commit());
  ASSERT_TRUE(file->finish());
  EXPECT_TRUE(content_of(source_) == last);
}

// Otherwise each change of a file would take longer than the one before it.
TEST_F(WriteLog, HoldDoesNotCopyWhatIsInTheLog) {
  const auto file = open();
  ASSERT_TRUE(file->begin_writing());
  const Content bytes = noise(8, 1);
  for (uint64_t i = 0; i < 5000; ++i) ASSERT_TRUE(file->write(i * 16, bytes));
  ASSERT_TRUE(file->commit());
  const auto in_use = [] { return ::mallinfo2().uordblks; };
  const size_t before = in_use();
  file->hold();
  EXPECT_LT(in_use(), before + 20'000);
  ASSERT_TRUE(file->write(8, bytes));
  ASSERT_TRUE(file->release());
  EXPECT_LT(in_use(), before + 100'000);
  ASSERT_TRUE(file->finish());
}

// Writes, sizes, commits, checkpoints, hold, release and rollback in any order, compared with a model.
TEST_F(WriteLog, WhatIsHeldIsReleasedOrTakenBack) {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    store(source_, before_);
    std::mt19937 random(seed);
    const auto file = open();
    ASSERT_TRUE(file->begin_writing());
    Content committed = before_;
    Content now = before_;
    bool held = false;
    for (int step = 0; step < 200; ++step) {
      switch (random() % 12) {
        case 0:
          EXPECT_EQ(static_cast<bool>(file->commit()), !held);
          if (!held) committed = now;
          break;
        case 1:
          if (!held && now == committed) {
            ASSERT_TRUE(file->commit());
            ASSERT_TRUE(file->checkpoint());
            EXPECT_TRUE(content_of(source_) == committed);
          }
          break;
        case 2:
          file->hold();
          held = true;
          break;
        case 3:
        case 4:
          ASSERT_TRUE(file->release());
          held = false;
          break;
        case 5:
          ASSERT_TRUE(file->rollback());
          now = committed;
          held = false;
          break;
        case 6: {
          const size_t size = random() % 12'000;
          ASSERT_TRUE(file->set_size(size));
          now.resize(size);
          break;
        }
        default: {
          const Content bytes = noise(random() % 700, random());
          const uint64_t offset = random() % 12'000;
          ASSERT_TRUE(file->write(offset, bytes));
          if (!bytes.empty()) overwrite(now, offset, bytes);
        }
      }
      ASSERT_TRUE(shown_by(*file) == now) << "seed " << seed << ", step " << step;
    }
    if (seed % 3 == 0) {
      ASSERT_TRUE(file->finish());
      EXPECT_TRUE(content_of(source_) == committed) << seed;
      EXPECT_TRUE(shown_by(*file) == committed) << seed;
      continue;
    }
    if (seed % 3 == 1) {
      ASSERT_TRUE(file->release());
      ASSERT_TRUE(file->commit());
      committed = now;
    }
    ASSERT_TRUE(file->rollback());
    EXPECT_TRUE(shown_by(*file) == committed) << seed;
    ASSERT_TRUE(file->finish());
    EXPECT_TRUE(content_of(source_) == committed) << seed;
  }
}

}  // namespace
}  // namespace codecfs
