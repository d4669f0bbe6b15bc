// HERALD_EXPORT marks the classes and functions that other libraries may use.
//
// All code is compiled with hidden visibility, so a class or function that is defined in a .cc file
// and used outside of its library needs the mark. In static builds the mark is empty: a program
// that links Herald into its own shared library must not export Herald's symbols.
#pragma once

#if defined(HERALD_STATIC)
#define HERALD_EXPORT
#else
#define HERALD_EXPORT [[gnu::visibility("default")]]
#endif
