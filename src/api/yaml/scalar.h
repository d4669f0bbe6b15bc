#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

// The meaning of YAML's plain scalars, as in the YAML library of Kubernetes (go.yaml.in/yaml/v2
// below sigs.k8s.io/yaml). The reader needs it to read them, the writer to know which strings need
// quotes.
namespace herald::yaml {

// A timestamp is read as a string, but a string that looks like one is written in quotes.
struct Timestamp {};
using Scalar =
    std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, Timestamp, std::string>;

// The value of a plain scalar in YAML 1.1 (upstream's resolve.go).
Scalar Resolve(std::string_view text, bool timestamps = true);

// Go's strconv.FormatFloat(value, 'g', -1, 32), with YAML's names for infinity and NaN.
std::string FormatG(float value);
// The same with 64 bits.
std::string FormatG(double value);

// Parts of a parser. Each removes what it reads from the front of *text.

inline bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Reads `min` to `max` digits. Returns -1, and reads nothing, if there are fewer.
int TakeDigits(std::string_view* text, std::size_t min, std::size_t max);

// Reads `c`. Returns false if the next character is another one.
bool Take(std::string_view* text, char c);

}  // namespace herald::yaml
