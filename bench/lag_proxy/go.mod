module codecfs.example/lag_proxy

go 1.19
