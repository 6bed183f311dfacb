// Changes of a part of a chunk, as in the whole-array views, over a source in memory.

#include "fs/chunks/write_back.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <new>
#include <optional>
#include <semaphore>
#include <stdexcept>
#include <thread>

#include "base/fail_points.h"
#include "fs/chunks/recoding_policy.h"
#include "support/failing_memory.h"
#include "support/memory_source.h"

namespace codecfs::fs {
namespace {

constexpr uint64_t kChunk = 64 << 10;  // bytes
constexpr char kFill = '.';
constexpr const char* kPath = "/v";

class WriteBackTest : public testing::Test {
 protected:
  WriteBackTest() {
    auto source = std::make_unique<MemorySource>();
    source_ = source.get();
    source_->add_variable(kPath, text_variable({1000 * kChunk}, {kChunk}));
    variable_ = source_->object(kPath);
    view_ = std::make_shared<VariableView>();
    view_->facts = *source_->variable(variable_);
    dataset_ = std::make_unique<Dataset>(std::move(source));
    WriteBack::Options options;
    options.dirty_bytes = 64 * kChunk;
    options.commit = std::chrono::seconds(3600);
    make(options);
  }

  void make(const WriteBack::Options& options) {
    write_back_ = std::make_unique<WriteBack>(
        *dataset_, cache_, conversions_, stats_, options,
        [this](const ChunkPlace& chunk) -> Result<ChunkPtr> {
          if (before_base_) CODECFS_TRY(before_base_());
          Result<Buffer> bytes = source_->read_chunk(chunk.object, chunk.number);
          if (!bytes) bytes = make_fill_chunk(*view_->facts);
          return std::make_shared<const Buffer>(*std::move(bytes));
        },
        [this](const ChunkPlace&) -> Result<> {
          if (make_removals_throw_)
            throw std::runtime_error("a text that is longer than what a string holds by itself");
          return {};
        });
  }

  ChunkPlace place(uint64_t number) { return {1000 + number, variable_, number, view_}; }

  Result<> put(uint64_t number, uint64_t offset, std::string_view text, bool done = false) {
    return write_back_->change(place(number), false, done, [&](MutableBytes chunk) {
      std::memcpy(chunk.data() + offset, text.data(), text.size());
    });
  }

  std::string content(uint64_t number) {
    const auto content = write_back_->content(1000 + number);
    if (!content) return "none";
    return {reinterpret_cast<const char*>(content->bytes->data()), content->size};
  }

  std::string stored(uint64_t number) { return source_->chunk(kPath, number); }

  static std::string filled(uint64_t offset, std::string_view text) {
    return std::string(kChunk, kFill).replace(offset, text.size(), text);
  }

  bool make_removals_throw_ = false;
  std::function<Result<>()> before_base_;  // called by writers that need the stored chunk
  Stats stats_;
  ChunkCache cache_{uint64_t{8} << 20, stats_};
  ChunkCache conversions_{uint64_t{8} << 20, stats_};
  std::shared_ptr<VariableView> view_;
  MemorySource* source_ = nullptr;
  ObjectId variable_ = 0;
  std::unique_ptr<Dataset> dataset_;
  std::unique_ptr<WriteBack> write_back_;
};

TEST_F(WriteBackTest, APartIsChangedAndTheRestIsFill) {
  ASSERT_TRUE(put(5, 10, "abc"));
  EXPECT_EQ(content(5), filled(10, "abc"));
  ASSERT_TRUE(write_back_->sync_variable(variable_));
  EXPECT_EQ(stored(5), filled(10, "abc"));
  EXPECT_EQ(source_->commits, 1);
  EXPECT_EQ(content(5), "none") << "it is stored and forgotten";
  ASSERT_TRUE(put(5, 11, "XY"));
  EXPECT_EQ(content(5), filled(10, "aXY")) << "the rest is what was stored";
}

/// A writer that waits for the stored bytes of chunk 1.
class LoadingWriterTest : public WriteBackTest {
 protected:
  LoadingWriterTest() {
    before_base_ = [this]() -> Result<> {
      ++loads_;
      entered_.release();
      leave_.acquire();
      return failure_ ? Result<>(std::unexpected(*failure_)) : Result<>();
    };
    writer_ = std::async(std::launch::async, [this] { return put(1, 10, "abc"); });
    entered_.acquire();
  }
  ~LoadingWriterTest() override { let_go(); }

  void let_go() {
    leave_.release();
    if (writer_.valid()) written_ = writer_.get();
  }
  /// The result of a call that must not wait for the writer.
  template <class Call>
  auto at_once(Call call) {
    auto result = std::async(std::launch::async, call);
    EXPECT_EQ(result.wait_for(std::chrono::seconds(20)), std::future_status::ready) << "it waits for the writer";
    if (result.wait_for(std::chrono::seconds(0)) != std::future_status::ready) let_go();
    return result.get();
  }

  std::atomic<int> loads_ = 0;
  std::optional<Error> failure_;
  std::counting_semaphore<> entered_{0};
  std::counting_semaphore<> leave_{0};
  std::future<Result<>> writer_;
  Result<> written_ = fail(EINTR, "not yet");
};

TEST_F(LoadingWriterTest, ReadersDoNotWait) {
  EXPECT_EQ(at_once([&] { return content(1); }), "none") << "the chunk has not changed yet";
  EXPECT_EQ(at_once([&] { return write_back_->size(1001); }), std::nullopt);
  let_go();
  ASSERT_TRUE(written_);
  EXPECT_EQ(content(1), filled(10, "abc"));
}

TEST_F(LoadingWriterTest, AWholeChunkIsWrittenAtOnceAndIsNotLost) {
  ASSERT_TRUE(at_once([&] {
    return write_back_->change(place(1), true, false,
                               [](MutableBytes chunk) { std::ranges::fill(chunk, std::byte{'w'}); });
  }));
  EXPECT_EQ(at_once([&] { return content(1); }), std::string(kChunk, 'w'));
  let_go();
  ASSERT_TRUE(written_);
  EXPECT_EQ(content(1), std::string(kChunk, 'w').replace(10, 3, "abc"));
  ASSERT_TRUE(write_back_->sync_variable(variable_));
  EXPECT_EQ(stored(1), std::string(kChunk, 'w').replace(10, 3, "abc"));
}

TEST_F(LoadingWriterTest, AnotherWriterOfThePartDoesNotLoadAgain) {
  auto second = std::async(std::launch::async, [&] { return put(1, 20, "xyz"); });
  leave_.release();  // also for a second load
  let_go();
  ASSERT_TRUE(written_);
  ASSERT_TRUE(second.get());
  EXPECT_EQ(loads_, 1);
  EXPECT_EQ(content(1), filled(10, "abc").replace(20, 3, "xyz"));
}

TEST_F(LoadingWriterTest, AFailedLoadChangesNothing) {
  failure_ = Error{EIO, "broken"};
  let_go();
  ASSERT_FALSE(written_);
  EXPECT_EQ(written_.error().code, EIO);
  EXPECT_EQ(content(1), "none");
  EXPECT_TRUE(write_back_->try_pause(variable_)) << "no edit is left";
}

TEST_F(LoadingWriterTest, APauseWaitsForTheWriter) {
  EXPECT_FALSE(at_once([&] { return write_back_->try_pause(variable_).has_value(); }));
  auto paused = std::async(std::launch::async, [&] { return write_back_->pause(variable_).has_value(); });
  EXPECT_EQ(paused.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  let_go();
  EXPECT_TRUE(paused.get());
  EXPECT_EQ(stored(1), filled(10, "abc"));
}

TEST_F(WriteBackTest, ConcurrentWritersOfOneChunkLoseNothing) {
  constexpr int kWriters = 4;
  for (uint64_t number = 0; number < 20; ++number) {
    std::vector<std::future<Result<>>> writers;
    for (int i = 0; i < kWriters; ++i)
      writers.push_back(std::async(std::launch::async,
                                   [&, i] { return put(number, 10 * static_cast<uint64_t>(i), "part", i % 2 == 0); }));
    for (auto& writer : writers) ASSERT_TRUE(writer.get());
    std::string expected = filled(0, "");
    for (size_t i = 0; i < kWriters; ++i) expected.replace(10 * i, 4, "part");
    ASSERT_TRUE(write_back_->sync(place(number)));
    ASSERT_EQ(stored(number), expected);
  }
  EXPECT_EQ(stats_.dirty_bytes, 0);
}

TEST_F(WriteBackTest, NoWriteIsLostAmongConcurrentCalls) {
  constexpr uint64_t kChunks = 3;
  constexpr uint64_t kWriters = 4;
  constexpr int kSteps = 300;
  constexpr uint64_t kRemoved = 9;  // number of a chunk that is removed and written again
  const auto text_of = [](int step) { return fmt::format("{:08}", step); };
  const auto write_and_look = [&](uint64_t writer) {
    const uint64_t offset = 100 * writer;
    for (int step = 0; step < kSteps; ++step) {
      const uint64_t number = static_cast<uint64_t>(step) % kChunks;
      ASSERT_TRUE(put(number, offset, text_of(step), step % 2 == 0));
      // The edit, if it is not stored yet.
      const std::string now = content(number);
      if (now != "none") {
        ASSERT_EQ(now.substr(offset, 8), text_of(step));
      }
      ASSERT_TRUE(put(kRemoved, offset, "x"));
      if (step % 7 == 0) {
        ASSERT_TRUE(write_back_->sync(place(number)));
      }
    }
  };
  std::atomic<bool> ended = false;
  std::vector<std::future<void>> writers;
  for (uint64_t writer = 0; writer < kWriters; ++writer)
    writers.push_back(std::async(std::launch::async, write_and_look, writer));
  auto disturbing = std::async(std::launch::async, [&] {
    while (!ended) {
      EXPECT_TRUE(write_back_->remove(place(kRemoved)));
      EXPECT_TRUE(write_back_->pause(variable_));
      EXPECT_TRUE(write_back_->flush_variable(variable_));
      (void)write_back_->changes(variable_);
    }
  });
  for (auto& writer : writers) writer.get();
  ended = true;
  disturbing.get();
  ASSERT_TRUE(write_back_->sync_all());
  EXPECT_EQ(stats_.dirty_bytes, 0);
  for (uint64_t number = 0; number < kChunks; ++number) {
    std::string expected = filled(0, "");
    const int last = kSteps - static_cast<int>(kChunks - number);
    for (uint64_t writer = 0; writer < kWriters; ++writer) expected.replace(100 * writer, 8, text_of(last));
    EXPECT_TRUE(stored(number) == expected) << number;
  }
}

TEST_F(WriteBackTest, AChunkIsCreatedOnce) {
  auto created = write_back_->create(place(4), false);
  ASSERT_TRUE(created);
  EXPECT_TRUE(*created);
  EXPECT_EQ(write_back_->size(1004), 0);
  EXPECT_EQ(source_->reads, 0);
  created = write_back_->create(place(4), false);
  ASSERT_TRUE(created);
  EXPECT_FALSE(*created);
  ASSERT_TRUE(write_back_->sync_variable(variable_));
  created = write_back_->create(place(4), false);
  ASSERT_TRUE(created);
  EXPECT_FALSE(*created) << "it is stored";
  EXPECT_EQ(content(4), filled(0, ""));
}

TEST_F(WriteBackTest, WhatIsHandedOutStaysAsItWas) {
  ASSERT_TRUE(put(1, 0, "one"));
  const auto before = write_back_->content(1001);
  ASSERT_TRUE(put(1, 0, "two"));
  EXPECT_EQ(std::memcmp(before->bytes->data(), "one", 3), 0);
  EXPECT_EQ(content(1).substr(0, 3), "two");
}

TEST_F(WriteBackTest, WhatIsWrittenWholeIsNotRead) {
  ASSERT_TRUE(write_back_->change(place(2), true, true, [](MutableBytes chunk) {
    EXPECT_EQ(chunk.size(), kChunk);
    std::ranges::fill(chunk, std::byte{'w'});
  }));
  EXPECT_EQ(source_->reads, 0);
  ASSERT_TRUE(write_back_->sync_variable(variable_));
  EXPECT_EQ(stored(2), std::string(kChunk, 'w'));
}

TEST_F(WriteBackTest, AChunkFileThatIsShortIsWholeAgain) {
  ASSERT_TRUE(write_back_->resize(place(3), 0));
  EXPECT_EQ(write_back_->size(1003), 0);
  ASSERT_TRUE(put(3, 100, "x"));
  EXPECT_EQ(content(3), filled(100, "x"));
}

TEST_F(WriteBackTest, UnderPressureOnlyWhatIsDoneIsStored) {
  for (uint64_t number = 0; number < 20; ++number) ASSERT_TRUE(put(number, 0, "part"));
  EXPECT_EQ(source_->writes, 0);
  for (uint64_t number = 0; number < 5; ++number) ASSERT_TRUE(put(number, 4, "rest", true));
  for (int tries = 0; source_->writes < 5 && tries < 1000; ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(source_->writes, 5);
  EXPECT_EQ(stored(4), filled(0, "partrest"));
  ASSERT_TRUE(write_back_->flush_variable(variable_));
  for (int tries = 0; source_->writes < 20 && tries < 1000; ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(source_->writes, 20) << "a close ends the waiting of all";
}

TEST_F(WriteBackTest, MoreThanTheLimitIsNeverWaiting) {
  for (uint64_t number = 0; number < 300; ++number) {
    ASSERT_TRUE(put(number, 0, "part"));
    EXPECT_LE(stats_.dirty_bytes, (64 + 1) * kChunk);
  }
  ASSERT_TRUE(write_back_->finish());
  for (uint64_t number = 0; number < 300; ++number) ASSERT_EQ(stored(number), filled(0, "part"));
}

TEST_F(WriteBackTest, SmallChunksAreStoredTogether) {
  constexpr int kChunks = 200;
  source_->stores_together = true;
  WriteBack::Options options;
  options.dirty_bytes = 1000 * kChunk;
  options.commit = std::chrono::seconds(3600);
  options.encoders = 1;
  make(options);
  for (int i = 0; i < kChunks; ++i) ASSERT_TRUE(put(i, 0, std::to_string(i)));
  source_->refused = 77;
  const Result<> synced = write_back_->sync_all();
  ASSERT_FALSE(synced);
  EXPECT_EQ(synced.error().code, ENOSPC);
  EXPECT_EQ(source_->writes, kChunks - 1) << "all others are stored, each once";
  EXPECT_GT(source_->calls_together, 0);
  EXPECT_LE(source_->calls_together, kChunks / 3) << "of 256 KiB";
  source_->refused.reset();
  ASSERT_TRUE(write_back_->sync_all());
  EXPECT_EQ(source_->writes, kChunks);
  for (int i = 0; i < kChunks; ++i)
    EXPECT_EQ(source_->chunk(kPath, i).substr(0, 3), (std::to_string(i) + "...").substr(0, 3));
  EXPECT_EQ(stats_.chunks_encoded, kChunks);
  EXPECT_EQ(stats_.dirty_bytes, 0);
}

TEST_F(WriteBackTest, AFailureIsToldByTheNextFlushOrSyncOfTheVariable) {
  source_->is_full = true;
  ASSERT_TRUE(put(1, 0, "abc", true));
  const auto synced = write_back_->sync_variable(variable_);
  ASSERT_FALSE(synced);
  EXPECT_EQ(synced.error().code, ENOSPC);
  source_->is_full = false;
  ASSERT_TRUE(write_back_->sync_variable(variable_));
  EXPECT_EQ(stored(1), filled(0, "abc"));
}

TEST_F(WriteBackTest, TheEndDoesNotWaitForChunksThatCannotBeStored) {
  WriteBack::Options options;
  options.commit = std::chrono::seconds(0);  // the committer waits for the encoders nearly always
  source_->is_full = true;
  for (int i = 0; i < 200; ++i) {
    make(options);
    for (uint64_t number = 0; number < 4; ++number) ASSERT_TRUE(put(number, 0, "abc", true));
    const Result<> finished = write_back_->finish();
    ASSERT_FALSE(finished);
    EXPECT_EQ(finished.error().code, ENOSPC);
  }
}

TEST_F(WriteBackTest, StoreStoresAVariableWithoutACommit) {
  ASSERT_TRUE(put(0, 0, "one"));
  ASSERT_TRUE(put(3, 5, "two"));
  ASSERT_TRUE(write_back_->store(variable_));
  EXPECT_EQ(stored(0).substr(0, 4), "one.");
  EXPECT_EQ(stored(3).substr(4, 5), ".two.");
  EXPECT_EQ(source_->commits, 0);
  ASSERT_TRUE(write_back_->store(variable_)) << "there is nothing to store";
  source_->is_full = true;
  ASSERT_TRUE(put(1, 0, "x"));
  EXPECT_EQ(write_back_->store(variable_).error().code, ENOSPC);
  source_->is_full = false;
}

TEST_F(WriteBackTest, ForgottenChunksAreThoseOfTheSource) {
  for (uint64_t number = 1; number <= 4; ++number) ASSERT_TRUE(put(number, 0, "old"));
  ASSERT_TRUE(write_back_->remove(place(3)));
  EXPECT_TRUE(write_back_->removed(1003));
  {
    const auto pause = write_back_->pause(variable_);
    ASSERT_TRUE(pause);
    const uint64_t changes = write_back_->changes_made();
    write_back_->forget_range(place(2), 2);
    EXPECT_GT(write_back_->changes_made(), changes);
  }
  EXPECT_FALSE(write_back_->removed(1003));
  EXPECT_FALSE(write_back_->content(1002));
  EXPECT_EQ(stored(4).substr(0, 3), "old");
}

class RecodingTest : public WriteBackTest {
 protected:
  void begin(bool holds = true) {
    auto begun = write_back_->begin_recoding(variable_, holds);
    ASSERT_TRUE(begun);
    recoding_.emplace(*std::move(begun));
  }
  static bool is_busy(const auto& result) { return !result && result.error().code == EBUSY; }

  std::optional<WriteBack::Recoding> recoding_;
};

TEST_F(RecodingTest, WhatWasWrittenBeforeIsStoredFirst) {
  ASSERT_TRUE(put(1, 0, "one"));
  begin();
  EXPECT_EQ(stored(1), filled(0, "one"));
}

TEST_F(RecodingTest, ChangesThatAreHeldAreStoredAfterwards) {
  begin();
  {
    const RecodingPolicy::Scope holds(DuringRecoding::hold);
    ASSERT_TRUE(put(1, 0, "one", true));
    EXPECT_FALSE(holds.has_refused());
    EXPECT_TRUE(write_back_->flush(place(1))) << "close does not wait";
    EXPECT_TRUE(is_busy(write_back_->sync(place(1)))) << "it is not durable";
    EXPECT_TRUE(is_busy(write_back_->sync_all()));
    EXPECT_TRUE(is_busy(write_back_->store(variable_)));
    EXPECT_TRUE(holds.has_refused());
  }
  EXPECT_EQ(content(1), filled(0, "one")) << "readers see it";
  EXPECT_EQ(source_->writes, 0);
  EXPECT_TRUE(write_back_->has_unstored());
  EXPECT_EQ(stats_.dirty_bytes, kChunk);
  recoding_.reset();
  ASSERT_TRUE(write_back_->sync_all());
  EXPECT_EQ(stored(1), filled(0, "one"));
  EXPECT_EQ(stats_.dirty_bytes, 0);
}

TEST_F(RecodingTest, HeldChangesAreBoundedAndLeaveRoomForOtherVariables) {
  begin();
  {
    const RecodingPolicy::Scope holds(DuringRecoding::hold);
    uint64_t number = 0;
    while (number < 100 && put(number, 0, "held")) ++number;
    EXPECT_EQ(number, 64) << "as many as dirty chunks";
    EXPECT_TRUE(holds.has_refused());
  }
  source_->add_variable("/other", text_variable({1000 * kChunk}, {kChunk}));
  const ChunkPlace other{5000, source_->object("/other"), 0, view_};
  ASSERT_TRUE(
      write_back_->change(other, true, true, [](MutableBytes chunk) { std::ranges::fill(chunk, std::byte{'o'}); }));
  EXPECT_TRUE(write_back_->sync(other)) << "does not wait for the variable that is re-encoded";
  recoding_.reset();
  ASSERT_TRUE(write_back_->sync_all());
  EXPECT_EQ(stored(63), filled(0, "held"));
}

TEST_F(RecodingTest, AThreadThatServesRequestsIsRefused) {
  ASSERT_TRUE(put(7, 0, "before"));
  begin(false);
  for (const DuringRecoding policy : {DuringRecoding::refuse, DuringRecoding::hold}) {
    const RecodingPolicy::Scope scope(policy);
    EXPECT_TRUE(is_busy(put(1, 0, "one"))) << "nothing can be held";
    EXPECT_TRUE(scope.has_refused());
  }
  EXPECT_TRUE(is_busy(write_back_->remove(place(7))));
  EXPECT_TRUE(is_busy(write_back_->pause(variable_)));
  EXPECT_TRUE(is_busy(write_back_->pause_without_storing(variable_)));
  EXPECT_FALSE(write_back_->try_pause(variable_));
  recoding_.reset();
  EXPECT_TRUE(write_back_->pause(variable_));
  EXPECT_TRUE(write_back_->remove(place(7)));
}

TEST_F(RecodingTest, OtherThreadsWaitUntilItIsOverOrTheyAreCancelled) {
  begin();
  auto written = std::async(std::launch::async, [&] { return put(1, 0, "one").has_value(); });
  auto cancelled = std::async(std::launch::async, [&] {
    const RecodingPolicy::Scope waits(DuringRecoding::wait, [] { return true; });
    const RecodingPolicy::Scope inner;
    return put(2, 0, "two");
  });
  const Result<> ended = cancelled.get();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, EINTR);
  EXPECT_EQ(content(2), "none");
  EXPECT_EQ(written.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  recoding_.reset();
  EXPECT_TRUE(written.get());
}

TEST_F(RecodingTest, WhatWasEncodedBeforeIsEncodedAgain) {
  begin();
  {
    const RecodingPolicy::Scope holds(DuringRecoding::hold);
    const std::string bytes(kChunk, 'b');
    ChunkPlace known = place(1);
    known.variable = dataset_->variable(variable_).value();
    ASSERT_TRUE(
        write_back_->replace(known, bytes_of(bytes), std::make_shared<const Buffer>(*Buffer::copy_of(bytes_of("e")))));
  }
  recoding_.reset();
  ASSERT_TRUE(write_back_->sync_all());
  EXPECT_EQ(stats_.chunks_stored_as_given, 0);
  EXPECT_EQ(stored(1), std::string(kChunk, 'b'));
}

TEST_F(WriteBackTest, ThreadsThatCannotBeCreatedLeaveNothingBehind) {
  WriteBack::Options options;
  options.commit = std::chrono::seconds(0);
  options.encoders = 3;
  for (int passed = 0; passed < 4; ++passed) {
    make(options);
    FailPoints::arm(FailPoint::thread, passed, 1);
    const Result<> first = put(1, 0, "one", true);
    const bool has_some_encoders = passed == 1 || passed == 2;  // which do
    ASSERT_EQ(first.has_value(), has_some_encoders) << passed;
    if (!first) {
      EXPECT_EQ(first.error().code, EAGAIN);
    }
    FailPoints::disarm();
    EXPECT_TRUE(write_back_->pause(variable_)) << "no pin is left";
    EXPECT_TRUE(write_back_->remove(place(2)));
    ASSERT_TRUE(put(3, 0, "three", true));
    for (int tries = 0; source_->commits <= passed && tries < 1000; ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_GT(source_->commits, passed) << "there is a committer";
    ASSERT_TRUE(write_back_->finish());
    source_->commits = passed + 1;
    EXPECT_EQ(stored(3), filled(0, "three"));
  }
}

TEST_F(WriteBackTest, MemoryThatRunsOutIsAnErrorOfTheChunk) {
  constexpr int kPoints = 5;  // two of each chunk, and one of the commit
  for (int passed = 0; passed <= kPoints; ++passed) {
    ASSERT_TRUE(put(1, 0, "one"));
    ASSERT_TRUE(put(2, 0, "two"));
    FailPoints::arm(FailPoint::memory, passed, 1);
    const Result<> synced = write_back_->sync_all();
    FailPoints::disarm();
    EXPECT_EQ(synced.has_value(), passed >= kPoints) << passed;
    if (!synced) {
      EXPECT_EQ(synced.error().code, ENOMEM);
    }
    ASSERT_TRUE(write_back_->sync_all());
    EXPECT_EQ(stored(1), filled(0, "one"));
    EXPECT_EQ(stored(2), filled(0, "two"));
  }
}

TEST_F(WriteBackTest, TheEndOfTheMountTriesAgainWhenMemoryHasRunOut) {
  WriteBack::Options options;
  options.commit = std::chrono::seconds(3600);
  for (int passed = 0; passed < 6; ++passed) {
    make(options);
    ASSERT_TRUE(put(1, 0, "one"));
    ASSERT_TRUE(put(2, 0, "two"));
    source_->commits = 0;
    FailPoints::arm(FailPoint::memory, passed, 1);
    EXPECT_TRUE(write_back_->finish()) << passed;
    FailPoints::disarm();
    EXPECT_EQ(stored(1), filled(0, "one"));
    EXPECT_EQ(stored(2), filled(0, "two"));
    EXPECT_GT(source_->commits, 0);
  }
}

/// Each call in turn, with memory that runs out at each place: afterwards nothing is held.
class WriteBackMemoryTest : public WriteBackTest {
 protected:
  template <class Call>
  void step_through(Call call) {
    ASSERT_TRUE(put(9, 0, "nine"));  // so that there are threads
    ASSERT_TRUE(write_back_->sync_all());
    // The library of JSON needs memory to destroy what a variable has, and ends the program without it.
    ASSERT_TRUE(dataset_->variable(variable_));
    step_through_allocations(call, [&](bool) {
      ASSERT_TRUE(write_back_->pause(variable_)) << "nothing is pinned, removed or paused";
      EXPECT_TRUE(write_back_->begin_recoding(variable_, true)) << "nor re-encoded";
      ASSERT_TRUE(put(1, 0, "one"));
      ASSERT_TRUE(write_back_->remove(place(2)));
      ASSERT_TRUE(write_back_->sync_all());
      EXPECT_TRUE(stored(1).starts_with("one"));
      EXPECT_EQ(stats_.dirty_bytes, 0);
      EXPECT_FALSE(write_back_->has_unstored());
      EXPECT_TRUE(write_back_->try_pause(variable_)) << "no edit is left";
    });
  }
};

TEST_F(WriteBackMemoryTest, WritingLeavesNothing) {
  const std::string text(kChunk, 'w');
  step_through([&] { return write_back_->write(place(1), 0, bytes_of(text)); });
  step_through([&] { return write_back_->write(place(1), 5, bytes_of("text")); });
  step_through([&] { return put(1, 5, "text"); });
  step_through([&] { return write_back_->resize(place(1), 5); });
}

TEST_F(WriteBackMemoryTest, CreatingLeavesNothing) {
  step_through([&] { return write_back_->create(place(1), false); });
  step_through([&]() -> Result<> {
    const WriteBack::Writer writer = write_back_->open_writer(place(1));
    CODECFS_TRY(write_back_->begin_replacement(place(1)));
    return write_back_->flush(place(1));
  });
}

TEST_F(WriteBackMemoryTest, ReplacingLeavesNothing) {
  const std::string text(kChunk, 'w');
  ChunkPlace known = place(1);
  known.variable = dataset_->variable(variable_).value();
  step_through([&] { return write_back_->replace(known, bytes_of(text)); });
}

TEST_F(WriteBackMemoryTest, RemovingLeavesNothing) {
  step_through([&] { return write_back_->remove(place(1)); });
  step_through([&]() -> Result<> {
    CODECFS_TRY(put(1, 0, "changed"));
    return write_back_->remove(place(1));
  });
}

TEST_F(WriteBackMemoryTest, PausesAndReencodingsEnd) {
  step_through([&]() -> Result<> {
    CODECFS_TRY(put(1, 0, "changed"));
    CODECFS_TRY(write_back_->pause(variable_));
    CODECFS_TRY(write_back_->pause_without_storing(variable_));
    return {};
  });
  for (const bool holds : {true, false})
    step_through([&]() -> Result<> {
      CODECFS_TRY(put(1, 0, "changed"));
      CODECFS_ASSIGN(const WriteBack::Recoding recoding, write_back_->begin_recoding(variable_, holds));
      const RecodingPolicy::Scope may_hold(DuringRecoding::hold);
      if (holds) CODECFS_TRY(put(1, 0, "held"));
      return {};
    });
}

TEST_F(WriteBackMemoryTest, ForgettingNeedsNoMemory) {
  ASSERT_TRUE(put(1, 0, "one"));
  ASSERT_TRUE(write_back_->remove(place(2)));
  {
    const auto pause = write_back_->pause_without_storing(variable_);
    ASSERT_TRUE(pause);
    const FailingMemory failing(0);
    write_back_->forget(variable_);
  }
  EXPECT_EQ(content(1), "none");
  EXPECT_FALSE(write_back_->removed(1002));
  EXPECT_EQ(stats_.dirty_bytes, 0);
}

TEST_F(WriteBackTest, AnyExceptionOfTheSourceEndsARemoval) {
  make_removals_throw_ = true;
  EXPECT_ANY_THROW((void)write_back_->remove(place(1)));
  make_removals_throw_ = false;
  ASSERT_TRUE(put(1, 0, "one"));
  EXPECT_TRUE(write_back_->pause(variable_));
  EXPECT_TRUE(write_back_->remove(place(1)));
}

/// A source that others write to, too, so that it must be told which bytes were written.
class SharedSource : public MemorySource {
 public:
  [[nodiscard]] bool is_shared() const override { return true; }
  Result<ChunkBase> fetch_base(ObjectId variable, uint64_t number) override {
    Result<Buffer> chunk = read_chunk(variable, number);
    if (!chunk) return ChunkBase{.chunk = {}, .version = std::string(100, 'v')};
    return ChunkBase{.chunk = *std::move(chunk), .version = std::string(100, 'v')};
  }
  Result<UpdatedChunk> update_chunk(ObjectId variable, uint64_t number, Bytes chunk, const ByteSet& written,
                                    const std::optional<std::string>&) override {
    CODECFS_ASSIGN(Buffer now, Buffer::allocate(chunk.size()));
    std::ranges::fill(now.mutable_bytes(), std::byte{'o'});  // what others have stored
    written.copy(chunk, now.mutable_bytes());
    CODECFS_TRY(write_chunk(variable, number, now.bytes()));
    return UpdatedChunk{.version = std::string(100, 'v'), .has_others = true};
  }
};

TEST_F(WriteBackTest, BytesThatCouldNotBeStoredAreStoredLater) {
  auto source = std::make_unique<SharedSource>();
  source_ = source.get();
  source_->add_variable(kPath, text_variable({1000 * kChunk}, {kChunk}));
  source_->stores_together = true;
  variable_ = source_->object(kPath);
  write_back_.reset();
  dataset_ = std::make_unique<Dataset>(std::move(source));
  WriteBack::Options options;
  options.commit = std::chrono::seconds(3600);
  options.encoders = 1;
  make(options);
  int failures = 0;
  for (int passed = 0; passed < 8; ++passed) {
    for (const uint64_t number : {1, 2, 3}) ASSERT_TRUE(put(number, 10, "abc"));
    FailPoints::arm(FailPoint::memory, passed, 1);
    failures += write_back_->sync_all() ? 0 : 1;
    FailPoints::disarm();
    ASSERT_TRUE(write_back_->sync_all());
    for (const uint64_t number : {1, 2, 3})
      EXPECT_TRUE(stored(number) == std::string(kChunk, 'o').replace(10, 3, "abc")) << passed;
  }
  EXPECT_GT(failures, 0);
}

}  // namespace
}  // namespace codecfs::fs
