@group(0) @binding(2) var<storage, read_write> v9: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<f32>>;
@group(0) @binding(0) var<storage, read> v1: array<f32>;
struct info_st { scalars_usize: array<u32, 4>, static_meta: array<u32, 4> }
@group(0) @binding(3) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn router_dx_f32(@builtin(workgroup_id) v413: vec3<u32>, @builtin(num_workgroups) v415: vec3<u32>, @builtin(local_invocation_index) v422: u32) {
let v466 = &v9;
let v467 = &v5;
let v468 = &v1;
let v3 = u32(0);
let v13 = info_var.scalars_usize[0];
let v14 = info_var.scalars_usize[1];
let v15 = info_var.scalars_usize[2];
let v16 = u32(1);
let v17 = v15 + v16;
let v19 = v17 - v16;
let v414 = v413[2];
let v368 = u32(v414);
let v416 = v415[1];
let v370 = u32(v416);
let v371 = v368 * v370;
let v417 = v415[0];
let v373 = u32(v417);
let v374 = v371 * v373;
let v418 = v413[1];
let v376 = u32(v418);
let v379 = v376 * v373;
let v380 = v374 + v379;
let v420 = v413[0];
let v382 = u32(v420);
let v383 = v380 + v382;
let v433 = u32(64);
let v386 = v383 * v433;
let v423 = v422;
let v388 = u32(v423);
let v389 = v386 + v388;
let v23 = v389 / v19;
let v24 = u32(4);
let v25 = v23 * v24;
let v27 = v389 % v19;
let v30 = v25 < v13;
if v30 {
var<function> v363_store: array<u32, 4>= array<u32, 4>();
let v363 = &v363_store;
let v38 = v13 - v16;
let v39 = min(v25, v38);
let v40 = v39 * v14;
let v45 = &(*v363)[v3];
*v45 = v40;
let v47 = v25 + v16;
let v50 = min(v47, v38);
let v51 = v50 * v14;
let v56 = &(*v363)[v16];
*v56 = v51;
let v57 = u32(2);
let v58 = v25 + v57;
let v61 = min(v58, v38);
let v62 = v61 * v14;
let v67 = &(*v363)[v57];
*v67 = v62;
let v68 = u32(3);
let v69 = v25 + v68;
let v72 = min(v69, v38);
let v73 = v72 * v14;
let v78 = &(*v363)[v68];
*v78 = v73;
var<function> v364_store: array<vec4<f32>, 4>= array<vec4<f32>, 4>();
let v364 = &v364_store;
let v83 = f32(0.0);
let v84 = vec4<f32>(v83);
let v89 = &(*v364)[v3];
*v89 = v84;
let v96 = &(*v364)[v16];
*v96 = v84;
let v103 = &(*v364)[v57];
*v103 = v84;
let v110 = &(*v364)[v68];
*v110 = v84;
for(var v113: u32 = v3; v113 < v14; v113 += v16) {
var<function> v366_store: array<vec4<f32>, 4>= array<vec4<f32>, 4>();
let v366 = &v366_store;
let v124 = *v45;
let v125 = v124 + v113;
let v129 = &(*v468)[v125];
let v130 = *v129;
let v131 = vec4<f32>(v130);
let v136 = &(*v366)[v3];
*v136 = v131;
let v142 = *v56;
let v143 = v142 + v113;
let v147 = &(*v468)[v143];
let v148 = *v147;
let v149 = vec4<f32>(v148);
let v154 = &(*v366)[v16];
*v154 = v149;
let v160 = *v67;
let v161 = v160 + v113;
let v165 = &(*v468)[v161];
let v166 = *v165;
let v167 = vec4<f32>(v166);
let v172 = &(*v366)[v57];
*v172 = v167;
let v178 = *v78;
let v179 = v178 + v113;
let v183 = &(*v468)[v179];
let v184 = *v183;
let v185 = vec4<f32>(v184);
let v190 = &(*v366)[v68];
*v190 = v185;
let v191 = v113 * v15;
let v195 = v15 - v16;
let v196 = min(v27, v195);
let v197 = v191 + v196;
let v201 = &(*v467)[v197];
let v202 = *v201;
let v208 = *v136;
let v214 = *v89;
let v215 = fma(v208, v202, v214);
*v89 = v215;
let v226 = *v154;
let v232 = *v96;
let v233 = fma(v226, v202, v232);
*v96 = v233;
let v244 = *v172;
let v250 = *v103;
let v251 = fma(v244, v202, v250);
*v103 = v251;
let v262 = *v190;
let v268 = *v110;
let v269 = fma(v262, v202, v268);
*v110 = v269;

}
let v280 = v27 < v15;
let v281 = v30 && v280;
if v281 {
let v287 = *v89;
let v290 = v25 * v15;
let v291 = v290 + v27;
let v295 = &(*v466)[v291];
*v295 = v287;

}
let v300 = v47 < v13;
let v302 = v300 && v280;
if v302 {
let v308 = *v96;
let v311 = v47 * v15;
let v312 = v311 + v27;
let v316 = &(*v466)[v312];
*v316 = v308;

}
let v321 = v58 < v13;
let v323 = v321 && v280;
if v323 {
let v329 = *v103;
let v332 = v58 * v15;
let v333 = v332 + v27;
let v337 = &(*v466)[v333];
*v337 = v329;

}
let v342 = v69 < v13;
let v344 = v342 && v280;
if v344 {
let v350 = *v110;
let v353 = v69 * v15;
let v354 = v353 + v27;
let v358 = &(*v466)[v354];
*v358 = v350;

}

}
return;

}
