module example.org/engine

go 1.21
