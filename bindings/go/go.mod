module quarry.dev/quarry

go 1.25
