// What torch 2.5, the one that tch 0.18 goes with, calls otherwise than later ones. Put before every
// source that is compiled with this tch.
#pragma once

// `at::Context` makes a GPU ready under this name from 2.6 on.
#define lazyInitDevice(type) lazyInitCUDA()
