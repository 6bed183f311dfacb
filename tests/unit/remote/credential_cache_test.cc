#include "remote/credential_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "support/processes.h"

namespace codecfs::remote {
namespace {

using namespace std::chrono_literals;

/// A place that gives the keys "1", "2", ... with the same time until they expire, or fails.
struct Place {
  std::optional<std::chrono::seconds> validity = 1h;
  bool fails = false;
  int searches = 0;
  CredentialCache::Time now = std::chrono::sys_days(std::chrono::year(2026) / 1 / 1);
  CredentialCache cache{
      [this]() -> Result<Credentials> {
        ++searches;
        if (fails) return fail(EACCES, "broken");
        Credentials found{
            .access_key = std::to_string(searches), .secret_key = "s", .session_token = {}, .expires = {}};
        if (validity) found.expires = now + *validity;
        return found;
      },
      [this] { return now; }};

  std::string get() {
    const auto found = cache.get();
    return found ? found->access_key : found.error().reason;
  }
};

TEST(CredentialCache, KeepsThoseThatDoNotExpire) {
  Place place;
  place.validity.reset();
  EXPECT_EQ(place.get(), "1");
  place.now += 100000h;
  EXPECT_EQ(place.get(), "1");
}

TEST(CredentialCache, RenewsFiveMinutesBefore) {
  Place place;
  EXPECT_EQ(place.get(), "1");
  place.now += 54min + 59s;
  EXPECT_EQ(place.get(), "1");
  place.now += 1s;
  EXPECT_EQ(place.get(), "2");
  EXPECT_EQ(place.get(), "2");
}

TEST(CredentialCache, ShortOnesAreNotAskedForEachTime) {
  Place place;
  place.validity = 4min;
  EXPECT_EQ(place.get(), "1");
  place.now += 59s;
  EXPECT_EQ(place.get(), "1");
  place.now += 1s;
  EXPECT_EQ(place.get(), "2");
  place.validity = 10s;
  place.now += 1min;
  EXPECT_EQ(place.get(), "3");
  place.now += 4s;
  EXPECT_EQ(place.get(), "3");
  place.now += 1s;
  EXPECT_EQ(place.get(), "4");
}

TEST(CredentialCache, AFailedRenewalKeepsTheValidOnes) {
  log::set_level(log::Level::error);
  Place place;
  EXPECT_EQ(place.get(), "1");
  place.now += 56min;
  place.fails = true;
  EXPECT_EQ(place.get(), "1");
  EXPECT_EQ(place.get(), "1");
  EXPECT_EQ(place.searches, 2) << "the second one comes after a pause";
  place.now += 1min;
  EXPECT_EQ(place.get(), "1");
  EXPECT_EQ(place.searches, 3);
  place.now += 3min;
  EXPECT_EQ(place.get(), "broken");
  EXPECT_EQ(place.get(), "broken");
  EXPECT_EQ(place.searches, 5);
  place.fails = false;
  EXPECT_EQ(place.get(), "6");
  log::set_level(log::Level::info);
}

TEST(CredentialCache, RefusedOnesAreDropped) {
  Place place;
  const Credentials first = place.cache.get().value();
  place.cache.refused(first);
  EXPECT_EQ(place.get(), "2");
  place.cache.refused(first);
  EXPECT_EQ(place.get(), "2") << "others are there already";
  Credentials similar = place.cache.get().value();
  similar.session_token = "x";
  place.cache.refused(similar);
  EXPECT_EQ(place.get(), "2");
  place.fails = true;
  place.cache.refused(place.cache.get().value());
  EXPECT_EQ(place.get(), "broken") << "refused ones do not come back";
}

TEST(CredentialCache, OneSearchForAllThatWait) {
  std::atomic<int> searches = 0;
  std::atomic<bool> waits = true;
  std::atomic<int> started = 0;
  CredentialCache cache([&]() -> Result<Credentials> {
    ++searches;
    await([&] { return !waits; });
    return fail(EACCES, "broken");
  });
  std::vector<std::future<std::string>> threads;
  for (int i = 0; i < 8; ++i) {
    threads.push_back(std::async(std::launch::async, [&] {
      ++started;
      return cache.get().error().reason;
    }));
  }
  EXPECT_TRUE(await([&] { return started == 8 && searches == 1; }));
  std::this_thread::sleep_for(50ms);
  waits = false;
  for (auto& thread : threads) EXPECT_EQ(thread.get(), "broken");
  EXPECT_EQ(searches, 1);
}

TEST(CredentialCache, CallersUseTheValidOnesDuringARenewal) {
  std::atomic<int> searches = 0;
  std::atomic<bool> waits = false;
  std::atomic<CredentialCache::Time> now = CredentialCache::Time();
  CredentialCache cache(
      [&]() -> Result<Credentials> {
        const int number = ++searches;
        await([&] { return !waits; });
        return Credentials{
            .access_key = std::to_string(number), .secret_key = "s", .session_token = {}, .expires = now.load() + 1h};
      },
      [&] { return now.load(); });
  EXPECT_EQ(cache.get()->access_key, "1");
  waits = true;
  now = now.load() + 56min;
  auto renewing = std::async(std::launch::async, [&] { return cache.get()->access_key; });
  EXPECT_TRUE(await([&] { return searches == 2; }));
  EXPECT_EQ(cache.get()->access_key, "1");
  now = now.load() + 4min;  // expired
  auto waiting = std::async(std::launch::async, [&] { return cache.get()->access_key; });
  EXPECT_EQ(waiting.wait_for(50ms), std::future_status::timeout);
  waits = false;
  EXPECT_EQ(renewing.get(), "2");
  EXPECT_EQ(waiting.get(), "2");
  EXPECT_EQ(searches, 2);
}

}  // namespace
}  // namespace codecfs::remote
