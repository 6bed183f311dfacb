#pragma once
// Calls of functions in another process. A call is declared by the function that it calls; its arguments and its result
// are those of the function, and its number is its place in a table:
//
//   using Calls = rpc::Table<rpc::Call<&Source::list>, rpc::Call<&Source::find>>;
//
//   client   rpc::Encoder request;
//            rpc::put_arguments<&Source::find>(request, group, name);
//            channel.send(Calls::number<&Source::find>, request.head, request.bulk);
//            Result<Entry> answer;
//            rpc::get_answer(rpc::Decoder(message.head, message.bulk), answer);
//   server   Calls::visit(kind, [&]<class Call>() { rpc::serve<Call::function>(in, out, source); });
//
// An argument that is a reference to what is not constant is not sent: the server passes an object of its own.

#include <cstdint>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/rpc/message.h"

namespace codecfs::rpc {

template <auto function_>
struct Call {
  static constexpr auto function = function_;
};

/// A function as a type, because pointers to virtual functions cannot be compared.
template <auto function>
struct Function;

template <class... Calls>
struct Table {
  template <auto function>
  static constexpr bool has = (std::is_same_v<Function<function>, Function<Calls::function>> || ...);
  /// From 1 on.
  template <auto function>
    requires has<function>
  static constexpr uint32_t number = [] {
    uint32_t number = 0;
    (void)((++number, std::is_same_v<Function<function>, Function<Calls::function>>) || ...);
    return number;
  }();
  /// Calls `visitor.operator()<Call>()` with the call that has this number. False if there is none.
  template <class Visitor>
  static bool visit(uint32_t number, const Visitor& visitor) {
    uint32_t present = 0;
    return ((++present == number && (visitor.template operator()<Calls>(), true)) || ...);
  }
};

/// A table of the calls of several std::tuple<Call...>.
template <class... Tuples>
struct TableOf : TableOf<decltype(std::tuple_cat(std::declval<Tuples>()...))> {};
template <class... Calls>
struct TableOf<std::tuple<Calls...>> : Table<Calls...> {};

// --- what follows from the type of a function

template <class T>
struct Received {
  using type = std::remove_cvref_t<T>;
};
template <class T>
  requires(!std::is_same_v<T, std::byte>)
struct Received<std::span<const T>> {
  using type = std::vector<T>;
};
template <class T>
  requires(!std::is_const_v<T>)
struct Received<T&> {
  using type = T*;
};
template <class T>
struct Returned {
  using type = T;
};
template <class T>
struct Returned<Result<T>> {
  using type = T;
};

template <class T>
struct Signature;
template <class C, class R, class... A>
struct Signature<R (C::*)(A...)> {
  using Class = C;
  using Value = typename Returned<R>::type;

  template <class T>
  static constexpr bool is_sent = !std::is_pointer_v<typename Received<T>::type>;

  static constexpr bool has_own = (!is_sent<A> || ...);

  static void put(Encoder& out, const std::remove_reference_t<A>&... arguments) {
    [[maybe_unused]] const auto put_one = [&]<class T>(const std::remove_reference_t<T>& argument) {
      if constexpr (is_sent<T>) out.put(argument);
    };
    (put_one.template operator()<A>(arguments), ...);
  }

  template <auto function, class Object, class... Own>
  static void serve(Decoder& in, Encoder& out, Object& object, Own&... own) {
    std::tuple<typename Received<A>::type...> received;
    std::apply([&](auto&... argument) { (take(in, argument, own...), ...); }, received);
    if (!in.is_complete()) return out.put(Result<>(fail(EPROTO, "wrong arguments")));
    out.put(Result<Value>(
        std::apply([&](auto&... argument) -> R { return (object.*function)(pass<A>(argument)...); }, received)));
  }

 private:
  template <class T, class... Own>
  static void take(Decoder& in, T& argument, Own&... own) {
    if constexpr (std::is_pointer_v<T>)
      argument = std::get<T>(std::tuple(&own...));
    else
      in.get(argument);
  }
  template <class T>
  static decltype(auto) pass(typename Received<T>::type& argument) {
    if constexpr (is_sent<T>)
      return (argument);
    else
      return (*argument);
  }
};

/// What a function returns, or the value of its Result.
template <auto function>
using ValueOf = typename Signature<decltype(function)>::Value;
/// The class whose member it is.
template <auto function>
using ClassOf = typename Signature<decltype(function)>::Class;
/// Whether one of its arguments is not sent.
template <auto function>
inline constexpr bool has_own_arguments = Signature<decltype(function)>::has_own;

template <auto function, class... Arguments>
void put_arguments(Encoder& out, const Arguments&... arguments) {
  Signature<decltype(function)>::put(out, arguments...);
}
/// Reads the arguments, calls the function, and puts its Result: EPROTO if the bytes are not its arguments. Throws what
/// the function throws; `out` is not to be used then. `own`: the arguments that are not sent.
template <auto function, class Object, class... Own>
void serve(Decoder& in, Encoder& out, Object& object, Own&... own) {
  Signature<decltype(function)>::template serve<function>(in, out, object, own...);
}
/// Reads the answer of serve(), of a call with any value if T is void. EIO if the bytes are none.
template <class T>
void get_answer(Decoder in, Result<T>& answer) {
  in.get(answer);
  if (std::is_void_v<T> ? in.failed() : !in.is_complete())
    answer = fail(EIO, "a process of codecfs gave an answer that is none");
}

}  // namespace codecfs::rpc
