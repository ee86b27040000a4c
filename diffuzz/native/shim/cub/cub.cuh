#error "diffuzz: not emulatable: cub"
