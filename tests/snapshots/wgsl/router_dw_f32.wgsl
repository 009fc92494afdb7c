@group(0) @binding(2) var<storage, read_write> v9: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<f32>>;
@group(0) @binding(0) var<storage, read> v1: array<f32>;
struct info_st { scalars_usize: array<u32, 4>, static_meta: array<u32, 4> }
@group(0) @binding(3) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn router_dw_f32(@builtin(workgroup_id) v374: vec3<u32>, @builtin(num_workgroups) v376: vec3<u32>, @builtin(local_invocation_index) v383: u32) {
let v419 = &v9;
let v420 = &v5;
let v421 = &v1;
let v3 = u32(0);
let v13 = info_var.scalars_usize[0];
let v14 = info_var.scalars_usize[1];
let v15 = info_var.scalars_usize[2];
let v16 = info_var.scalars_usize[3];
let v17 = u32(1);
let v18 = v15 + v17;
let v20 = v18 - v17;
let v23 = u32(4);
let v24 = v14 + v23;
let v26 = v24 - v17;
let v28 = v26 / v23;
let v375 = v374[2];
let v329 = u32(v375);
let v377 = v376[1];
let v331 = u32(v377);
let v332 = v329 * v331;
let v378 = v376[0];
let v334 = u32(v378);
let v335 = v332 * v334;
let v379 = v374[1];
let v337 = u32(v379);
let v340 = v337 * v334;
let v341 = v335 + v340;
let v381 = v374[0];
let v343 = u32(v381);
let v344 = v341 + v343;
let v394 = u32(64);
let v347 = v344 * v394;
let v384 = v383;
let v349 = u32(v384);
let v350 = v347 + v349;
let v30 = v20 * v28;
let v31 = v350 / v30;
let v34 = v350 % v30;
let v35 = v34 / v20;
let v36 = v34 % v20;
let v38 = v35 * v23;
let v41 = v31 * v16;
let v42 = v41 < v13;
if v42 {
var<function> v325_store: array<vec4<f32>, 4>= array<vec4<f32>, 4>();
let v325 = &v325_store;
let v47 = f32(0.0);
let v48 = vec4<f32>(v47);
let v53 = &(*v325)[v3];
*v53 = v48;
let v60 = &(*v325)[v17];
*v60 = v48;
let v65 = u32(2);
let v67 = &(*v325)[v65];
*v67 = v48;
let v72 = u32(3);
let v74 = &(*v325)[v72];
*v74 = v48;
let v75 = v41 + v16;
let v76 = min(v75, v13);
for(var v78: u32 = v41; v78 < v76; v78 += v17) {
var<function> v327_store: array<vec4<f32>, 4>= array<vec4<f32>, 4>();
let v327 = &v327_store;
let v84 = v78 * v14;
let v88 = v14 - v17;
let v89 = min(v38, v88);
let v90 = v84 + v89;
let v94 = &(*v421)[v90];
let v95 = *v94;
let v96 = vec4<f32>(v95);
let v101 = &(*v327)[v3];
*v101 = v96;
let v104 = v38 + v17;
let v107 = min(v104, v88);
let v108 = v84 + v107;
let v112 = &(*v421)[v108];
let v113 = *v112;
let v114 = vec4<f32>(v113);
let v119 = &(*v327)[v17];
*v119 = v114;
let v122 = v38 + v65;
let v125 = min(v122, v88);
let v126 = v84 + v125;
let v130 = &(*v421)[v126];
let v131 = *v130;
let v132 = vec4<f32>(v131);
let v137 = &(*v327)[v65];
*v137 = v132;
let v140 = v38 + v72;
let v143 = min(v140, v88);
let v144 = v84 + v143;
let v148 = &(*v421)[v144];
let v149 = *v148;
let v150 = vec4<f32>(v149);
let v155 = &(*v327)[v72];
*v155 = v150;
let v156 = v78 * v15;
let v160 = v15 - v17;
let v161 = min(v36, v160);
let v162 = v156 + v161;
let v166 = &(*v420)[v162];
let v167 = *v166;
let v173 = *v101;
let v179 = *v53;
let v180 = fma(v173, v167, v179);
*v53 = v180;
let v191 = *v119;
let v197 = *v60;
let v198 = fma(v191, v167, v197);
*v60 = v198;
let v209 = *v137;
let v215 = *v67;
let v216 = fma(v209, v167, v215);
*v67 = v216;
let v227 = *v155;
let v233 = *v74;
let v234 = fma(v227, v167, v233);
*v74 = v234;

}
let v240 = v31 * v14;
let v245 = v38 < v14;
let v246 = v36 < v15;
let v247 = v245 && v246;
if v247 {
let v253 = *v53;
let v254 = v240 + v38;
let v255 = v254 * v15;
let v256 = v255 + v36;
let v260 = &(*v419)[v256];
*v260 = v253;

}
let v262 = v38 + v17;
let v265 = v262 < v14;
let v267 = v265 && v246;
if v267 {
let v273 = *v60;
let v274 = v240 + v262;
let v275 = v274 * v15;
let v276 = v275 + v36;
let v280 = &(*v419)[v276];
*v280 = v273;

}
let v282 = v38 + v65;
let v285 = v282 < v14;
let v287 = v285 && v246;
if v287 {
let v293 = *v67;
let v294 = v240 + v282;
let v295 = v294 * v15;
let v296 = v295 + v36;
let v300 = &(*v419)[v296];
*v300 = v293;

}
let v302 = v38 + v72;
let v305 = v302 < v14;
let v307 = v305 && v246;
if v307 {
let v313 = *v74;
let v314 = v240 + v302;
let v315 = v314 * v15;
let v316 = v315 + v36;
let v320 = &(*v419)[v316];
*v320 = v313;

}

}
return;

}
